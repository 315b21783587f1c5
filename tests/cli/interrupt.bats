# Signals: the step is finished, a checkpoint is written, the status says which signal it was, and how to go on is said.
load helper

# wait_for TEXT FILE: at most ten seconds.
wait_for() {
    for _ in $(seq 200); do
        grep -q "$1" "$2" 2>/dev/null && return
        sleep 0.05
    done
    fail "nothing says $1 in $2: $(cat "$2")"
}

# interrupted SIGNAL STATUS: a long run in the background gets the signal once it has made a step.
interrupted() {
    "$GPIPE" train run.yaml --set train.steps=10000000 >stdout.txt 2>stderr.txt </dev/null &
    local child=$!
    wait_for step out/metrics.jsonl
    kill "-$1" "$child"
    status=0
    wait "$child" || status=$?
    output=$(cat stdout.txt stderr.txt)
    stdout=
    ended "$2"
    says "interrupted after step"
    says "go on with: gpipe train --resume out"
    [ -s out/checkpoints/latest/model.safetensors ]
    [ -s out/checkpoints/latest/state.json ]
    [ -s out/report.json ]
    step=$(readlink out/checkpoints/latest | sed 's/step-//')
    [ "$(wc -l <out/metrics.jsonl)" -eq "$step" ]
}

@test "Ctrl-C ends with status 130 and leaves whole weights" {
    interrupted INT 130
    gpipe eval out
    ended 0
}

@test "SIGTERM and SIGUSR1 end with status 0, and the run goes on" {
    for signal in TERM USR1; do
        rm -rf out
        interrupted "$signal" 0
        gpipe train --resume out --set train.steps=$((step + 3))
        ended 0
        says "out goes on after step $step of $((step + 3)), changed: train.steps 10000000 -> $((step + 3))"
        [ "$(readlink out/checkpoints/latest)" = "step-$((step + 3))" ]
    done
}

@test "a terminal that is closed ends with status 129, unless hang-ups are ignored" {
    interrupted HUP 129
    rm -rf out
    (
        trap '' HUP
        exec "$GPIPE" train run.yaml --set train.steps=10000000 >stdout.txt 2>stderr.txt </dev/null
    ) &
    local child=$!
    wait_for step out/metrics.jsonl
    kill -HUP "$child"
    sleep 0.5
    kill -0 "$child" || fail "the hang-up ended it"
    kill -TERM "$child"
    wait "$child"
}

# A step that takes long.
slow_run() {
    "$GPIPE" train run.yaml --set device.type=reference --set model.width=128 --set model.context=128 --set model.layers=6 \
        --set train.batch=32 "$@" >/dev/null 2>stderr.txt </dev/null &
    child=$!
    wait_for "plan:" stderr.txt
}

# timeout (coreutils) sends its signal to the program and to its group. The second comes as soon as the first was answered.
@test "a signal that comes twice at once is one" {
    slow_run --set model.layers=2 --set train.batch=4 --set train.steps=10000000
    kill -TERM "$child"
    until [[ $(<stderr.txt) == *"finishing this step"* ]]; do :; done
    kill -TERM "$child"
    status=0
    wait "$child" || status=$?
    ended 0
    [ -s out/checkpoints/latest/model.safetensors ]
}

@test "a second Ctrl-C, and a second SIGTERM, ends at once" {
    for pair in "INT 130" "TERM 143"; do
        rm -rf out
        slow_run
        kill "-${pair% *}" "$child"
        sleep 0.3
        kill "-${pair% *}" "$child"
        status=0
        wait "$child" || status=$?
        output=$(cat stderr.txt)
        ended "${pair#* }"
        says "once more ends at once"
        silent_about "interrupted after step"
    done
}

@test "what a batch system sends first does not make its second signal fatal" {
    slow_run
    kill -USR1 "$child"
    sleep 0.2
    kill -USR1 "$child"
    kill -TERM "$child"
    sleep 0.2
    kill -0 "$child" || fail "it ended: $(cat stderr.txt)"
    kill -KILL "$child"
    wait "$child" || :
}

@test "a signal does not wait for the end of an evaluation, which is made up for" {
    # 20,000 windows on the way; the same run without the signal is the judge.
    for i in $(seq 1 400); do cat corpus.txt; done >long.txt
    settings="--set data.text=long.txt --set data.validation=0.5 --set train.eval_every=2 --set train.steps=4 --set train.batch=1 --set pipeline.micro_batches=1"
    "$GPIPE" train run.yaml $settings >/dev/null 2>stderr.txt </dev/null &
    local child=$!
    sleep 0.2
    for _ in $(seq 400); do
        [ -s out/metrics.jsonl ] && break
        sleep 0.02
    done
    sleep 0.3 # step 2 follows at once, then its evaluation
    local begun
    begun=$(date +%s%N)
    kill -TERM "$child"
    wait "$child"
    [ $(($(date +%s%N) - begun)) -lt 5000000000 ] || fail "it took too long"
    output=$(cat stderr.txt)
    says "interrupted after step 2"
    grep -q '"evaluation_pending": true' out/checkpoints/step-2/state.json
    ! grep -q val_loss out/metrics.jsonl
    gpipe train --resume out --set train.eval_windows=50 --set train.steps=4
    ended 0
    [ "$(grep -c '"step":2,.*val_loss' out/metrics.jsonl)" -eq 1 ]
    [ "$(wc -l <out/metrics.jsonl)" -eq 4 ]
}

@test "an evaluation at the very end that a signal cut short is made up for once" {
    for i in $(seq 1 400); do cat corpus.txt; done >long.txt
    settings="--set data.text=long.txt --set data.validation=0.5 --set train.steps=2 --set train.batch=1 --set pipeline.micro_batches=1 --set checkpoint.best=false"
    "$GPIPE" train run.yaml $settings >/dev/null 2>stderr.txt </dev/null &
    local child=$!
    sleep 0.2
    for _ in $(seq 400); do
        [ -s out/metrics.jsonl ] && break
        sleep 0.02
    done
    sleep 0.3
    kill -TERM "$child"
    wait "$child"
    grep -q '"evaluation_pending": true' out/checkpoints/step-2/state.json
    gpipe train --resume out
    ended 0
    [ "$(grep -c '"step":2,.*val_loss' out/metrics.jsonl)" -eq 1 ]
    grep -q '"evaluation_pending": false' out/checkpoints/step-2/state.json
    gpipe inspect --verify out
    ended 0
    gpipe train --resume out
    says "out has made its 2 steps"
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
        echo half >"out/checkpoints/$folder/model.safetensors"
        echo half >"out/checkpoints/$folder/optimizer-00001-of-00002.safetensors"
        echo half >"out/checkpoints/$folder/state.json.1234-0.tmp"
    done
    gpipe train run.yaml -q --force --set checkpoint.every=1 --set checkpoint.keep=1
    ended 0
    [ -z "$(find out/checkpoints -name "*.tmp" -o -name "*.new" -o -name "step-?00")" ] || fail "left: $(ls -AR out/checkpoints)"
    gpipe eval out
    ended 0
}
