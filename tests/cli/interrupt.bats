# Signals: the step is finished, the weights are written, the status says which signal it was.
load helper

# interrupted SIGNAL STATUS: a long run in the background gets the signal once it has made a step.
interrupted() {
    "$GPIPE" train run.yaml --set train.steps=10000000 >stdout.txt 2>stderr.txt </dev/null &
    local child=$!
    for _ in $(seq 200); do
        [ -s out/metrics.jsonl ] && break
        sleep 0.05
    done
    kill "-$1" "$child"
    status=0
    wait "$child" || status=$?
    output=$(cat stdout.txt stderr.txt)
    stdout=
    ended "$2"
    says "interrupted after step"
    [ -s out/checkpoints/latest/model.safetensors ]
    [ -s out/report.json ]
    [ "$(wc -l <out/metrics.jsonl)" -eq "$(readlink out/checkpoints/latest | sed 's/step-//')" ]
}

@test "Ctrl-C ends with status 130 and leaves whole weights" {
    interrupted INT 130
    gpipe eval out
    ended 0
}

@test "a second Ctrl-C ends at once" {
    "$GPIPE" train run.yaml --set device.type=reference --set model.width=128 --set model.context=128 --set model.layers=6 \
        --set train.batch=32 >/dev/null 2>stderr.txt </dev/null &
    local child=$!
    for _ in $(seq 400); do
        grep -q "plan:" stderr.txt && break
        sleep 0.05
    done
    kill -INT "$child"
    sleep 0.3
    kill -INT "$child"
    status=0
    wait "$child" || status=$?
    output=$(cat stderr.txt)
    ended 130
    says "once more ends at once"
    silent_about "interrupted after step"
}

@test "SIGTERM ends with status 143" {
    interrupted TERM 143
}

@test "a killed run leaves the last checkpoint whole" {
    "$GPIPE" train run.yaml --set train.steps=10000000 --set checkpoint.every=1 >/dev/null 2>&1 </dev/null &
    local child=$!
    for _ in $(seq 200); do
        [ -e out/checkpoints/latest ] && break
        sleep 0.05
    done
    sleep 0.3
    kill -KILL "$child"
    wait "$child" || :
    gpipe eval out
    ended 0
}

@test "a reader of stdout that has gone is no crash" {
    gpipe train run.yaml
    ended 0
    status=0
    { timeout 60 "$GPIPE" sample out --tokens 100000 2>stderr.txt || echo $? >status.txt; } | head -c 5 >/dev/null
    [ "$(cat status.txt)" -eq 1 ]
    grep -q "stdout could not be written" stderr.txt
}

@test "what killed runs left behind neither stays nor costs a later run its checkpoints" {
    # Unfinished weights, and folders with higher numbers than the run will reach.
    gpipe train run.yaml -q
    ended 0
    for folder in .step-2.new .step-900.new step-800 step-900; do
        mkdir "out/checkpoints/$folder"
        echo half >"out/checkpoints/$folder/model.safetensors.1234-0.tmp"
    done
    gpipe train run.yaml -q --force --set checkpoint.every=1 --set checkpoint.keep=1
    ended 0
    [ -z "$(find out/checkpoints -name "*.tmp" -o -name "*.new" -o -name "step-?00")" ] || fail "left: $(ls -AR out/checkpoints)"
    gpipe eval out
    ended 0
}
