# Commands, options, help, version, manual pages, completion.
load helper

@test "without a command: usage, status 2" {
    refused 2 "Usage: gpipe COMMAND"
}

@test "an unknown command names the nearest one" {
    refused 2 'there is no command "trian"; the nearest one is train' trian
}

@test "--help at every level goes to stdout" {
    for command in train eval sample plan profile simulate inspect gradients doctor help; do
        gpipe --help
        ended 0
        says "  $command "
        gpipe "$command" --help
        ended 0
        [[ $stdout == "Usage: gpipe $command"* ]] || fail "no usage"
        [ -z "$stderr" ]
    done
}

@test "--version says what is built in" {
    gpipe --version
    ended 0
    [[ $stdout == "gpipe "[0-9]* ]] || fail "no version"
    says "oneDNN"
    says "kernels"
    [ -n "$MPI_NAMES" ] || MPI_NAMES="not built in"
    says "MPI $MPI_NAMES"
    gpipe doctor --seconds 0.1
    says "MPI            $MPI_NAMES"
}

@test "an unknown option names the nearest one" {
    refused 2 "train: unknown option --forse; the nearest known one is --force" train run.yaml --forse
}

@test "an option without its value, a switch with one" {
    refused 2 "option --out needs a value: DIR" train run.yaml --out
    refused 2 "option --json takes no value" plan run.yaml --json=yes
}

@test "missing and superfluous arguments" {
    refused 2 "run.yaml is missing" train
    refused 2 'unexpected argument "more"' train run.yaml more
    refused 2 "DIR is missing" eval
}

@test "numbers of options are checked" {
    refused 2 '--tokens is "many"; accepted: an integer' sample out --tokens many
    refused 2 '--temperature is "-1"; accepted: a number from 0' sample out --temperature=-1
    refused 2 '--stages is "0"' simulate --stages 0
    refused 2 '--schedule is "zigzag"; accepted: gpipe|1f1b|naive' simulate --schedule zigzag
}

@test "options in every form" {
    gpipe simulate --stages=2 -m4 --schedule 1f1b
    ended 0
    says "2 workers, 4 micro-batches"
}

@test "help config lists every key with what it accepts" {
    gpipe help config
    ended 0
    for key in model.name data.text pipeline.micro_batches device.memory optimizer.schedule.warmup train.out checkpoint.keep; do
        says "$key"
    done
    says "one of except_last, always, never"
    says "default: adamw"
}

@test "help layers lists the layers and their options" {
    gpipe help layers
    ended 0
    says "linear"
    says "features"
    says "repeat"
}

@test "help on a key, a group of keys, a layer" {
    for words in data.shift "config data.shift"; do
        gpipe help $words
        ended 0
        [ "$(head -2 <<<"$stdout")" = $'data:\n  data.shift' ] || fail "not the key"
        [ "$(grep -c "accepted:" <<<"$stdout")" -eq 1 ]
    done
    gpipe help optimizer.schedule
    ended 0
    says "  optimizer.schedule.warmup"
    silent_about "optimizer.lr"
    for words in conv2d "layers conv2d"; do
        gpipe help $words
        ended 0
        [ "$(head -1 <<<"$stdout")" = conv2d ]
        says "identity"
        silent_about "embedding"
    done
    gpipe help repeat
    [ "$(wc -l <<<"$stdout")" -eq 2 ]
    refused 2 'there is no help on "config data.shif"' help config data.shif
    says "the nearest is data.shift"
    for words in "conv2d nonsense" "nonsense conv2d" "train nonsense" "man nonsense" "config conv2d" "layers data.shift"; do
        refused 2 "there is no help on \"$words\"" help $words
    done
    refused 2 'there is no help on ""' help ""
}

@test "help on nothing that there is" {
    refused 2 'there is no help on "confg"' help confg
    refused 2 'completion for "tcsh" is not known; accepted: bash, zsh, fish' help completion tcsh
}

@test "manual pages hold every command and key" {
    gpipe help man
    ended 0
    says '.TH GPIPE 1'
    says '.SS "gpipe train [run.yaml]"'
    says '.SH "EXIT STATUS"'
    gpipe help man config
    ended 0
    says '.TH GPIPE-CONFIG 5'
    says '\fBoptimizer.betas\fR'
    ! command -v groff >/dev/null || [ -z "$(groff -man -ww -Tutf8 stdout.txt 2>&1 >/dev/null)" ]
}

# complete_at WORD gpipe ...: what completion offers in place of that word.
complete_at() {
    COMP_CWORD=$1
    shift
    COMP_WORDS=("$@")
    _gpipe || :
}

@test "completion for bash works" {
    "$GPIPE" help completion bash >completion.bash
    source completion.bash
    complete_at 1 gpipe tr
    [ "${COMPREPLY[*]}" = train ]
    complete_at 2 gpipe train --fo
    [ "${COMPREPLY[*]}" = --force ]
    complete_at 3 gpipe eval --split v
    [ "${COMPREPLY[*]}" = validation ]
    compopt() { :; }
    complete_at 3 gpipe train --set pipeline.mi
    [ "${COMPREPLY[*]}" = pipeline.micro_batches= ]
}

@test "completion for zsh and fish is written" {
    gpipe help completion zsh
    ended 0
    [[ $stdout == "#compdef gpipe"* ]]
    gpipe help completion fish
    ended 0
    says "complete -c gpipe"
}
