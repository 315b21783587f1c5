# What a terminal is shown, and what is not one is not.
load helper

# on_terminal ARGUMENT...: the program's stderr is a terminal; what it wrote is in $output.
on_terminal() {
    command -v script >/dev/null || skip "there is no script(1)"
    status=0
    stdout=
    TERM=xterm timeout 60 script -qefc "'$GPIPE' $*" /dev/null >screen.txt </dev/null || status=$?
    output=$(cat screen.txt)
}

@test "a terminal gets a live line that is taken away at the end" {
    unset NO_COLOR
    on_terminal train run.yaml --set train.steps=200
    ended 0
    says $'\r\033[K'"step "
    says "left"
    says "validation loss"
}

@test "errors are red, with NO_COLOR they are not" {
    unset NO_COLOR
    on_terminal train none.yaml
    ended 2
    says $'\033[31mgpipe: none.yaml'
    export NO_COLOR=1
    on_terminal train none.yaml
    silent_about $'\033[31m'
    says "gpipe: none.yaml"
}

@test "--quiet shows no live line" {
    on_terminal train run.yaml -q
    ended 0
    silent_about $'\033[K'
}

@test "without a terminal there are plain lines and no control characters" {
    gpipe train run.yaml --set train.steps=200 --set train.eval_every=100
    ended 0
    silent_about $'\033'
    silent_about $'\r'
    says "step 100/200"
}

@test "stdout that takes nothing is a failure with a sentence, in every command" {
    gpipe train run.yaml -q
    ended 0
    for command in "plan run.yaml" "plan run.yaml --json" "profile run.yaml" "simulate" "inspect out" "eval out" \
        "sample out -n 5" "doctor --seconds 0.05" "help config" "--version" "--help"; do
        status=0
        "$GPIPE" $command >/dev/full 2>stderr.txt || status=$?
        output=$(cat stderr.txt)
        ended 1
        says "stdout could not be written"
    done
}

@test "closed standard streams never write into a run's files" {
    gpipe train run.yaml -q
    ended 0
    cp out/metrics.jsonl metrics.jsonl
    cp out/checkpoints/latest/model.safetensors weights
    status=0
    "$GPIPE" train run.yaml --force >&- 2>stderr.txt </dev/null || status=$?
    output=$(cat stderr.txt)
    ended 1
    says "stdout could not be written"
    "$GPIPE" train run.yaml --force >stdout.txt 2>&- <&-
    cmp weights out/checkpoints/latest/model.safetensors
    [ "$(wc -l <out/metrics.jsonl)" -eq "$(wc -l <metrics.jsonl)" ]
    ! grep -v '^{.*}$' out/metrics.jsonl
    ! grep -q 'validation loss' out/config.yaml out/tokenizer.json corpus.txt run.yaml
}
