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
