# Benchmarks refuse what they do not know, with status 2 and before they measure anything.

setup() {
    [ -n "$BENCHMARKS" ] || skip "the benchmarks are not built"
    cd "$BATS_TEST_TMPDIR"
}

refused() { # program, argument...
    run timeout 20 "$@"
    [ "$status" -eq 2 ] || { echo "$*: status $status, $output"; return 1; }
    [ -n "$output" ]
}

@test "programs: options that are unknown, without their value or with one too many, and words" {
    for program in "$BENCHMARKS"/bench-*; do
        [ -f "$program" ] && [ -x "$program" ] || continue
        for argument in --nonsense "" - -- -x --json=1 --help=1 word; do
            refused "$program" "$argument"
        done
        run "$program" --help
        [ "$status" -eq 0 ]
        [[ $output == "Usage: ${program##*/} "* ]]
    done
}

@test "programs: values that are no numbers or no choice" {
    for value in "" x 1x -1 nan 1e300; do
        refused "$BENCHMARKS/bench-kernels" "--tokens=$value"
        refused "$BENCHMARKS/bench-overhead" "--batch=$value"
    done
    refused "$BENCHMARKS/bench-kernels" --dtype=f16
    refused "$BENCHMARKS/bench-images" --dtype=f16
    refused "$BENCHMARKS/bench-decoding" PATH 32 more
}

@test "programs: none or half of what is counted" {
    tried=0
    for program in "$BENCHMARKS"/bench-*; do
        [ -f "$program" ] && [ -x "$program" ] || continue
        usage=$("$program" --help)
        for name in rounds steps repeats saves period samples batch layers threads micro-batches width image filters partitions tokens \
            rows vocabulary replica-micro-batches; do
            [[ $usage == *"--$name="* ]] || continue
            for value in 0 0.5 1.5; do
                refused "$program" "--$name=$value"
                [[ $output == *"whole number from 1"* ]] || { echo "$program --$name=$value: $output"; return 1; }
            done
            tried=$((tried + 1))
        done
    done
    [ "$tried" -gt 30 ]
    refused "$BENCHMARKS/bench-efficiency" --rounds=101
    refused "$BENCHMARKS/bench-checkpoint" --period=1
    refused "$BENCHMARKS/bench-checkpoint" --saves=100000000
}

@test "AmoebaNet's memory: recomputation keeps a third at most; eight workers train what one may not" {
    run timeout 100 "$BENCHMARKS/bench-amoebanet-memory" --quick --json
    [ "$status" -eq 0 ]
    [[ $output == *'"eight_train": true, "one_refused": true'* ]]
    share=$(grep -o '"share": [0-9.]*' <<<"$output" | cut -d' ' -f2)
    awk -v share="$share" 'BEGIN { exit !(share > 0 && share <= 1 / 3) }'
}

@test "scripts" {
    for script in hosts limits transfer; do
        refused "$BENCH_SCRIPTS/$script.sh"
        refused "$BENCH_SCRIPTS/$script.sh" -x
        refused "$BENCH_SCRIPTS/$script.sh" . . --nonsense
        run "$BENCH_SCRIPTS/$script.sh" --help
        [ "$status" -eq 0 ]
        [[ $output == *"bench/$script.sh"* ]]
    done
    refused "$BENCH_SCRIPTS/transfer.sh" nowhere
    refused "$BENCH_SCRIPTS/transfer.sh" . --set pipeline.replicas=1
    refused env TRANSFER_STEPS=abc "$BENCH_SCRIPTS/transfer.sh" .
    refused "$BENCHMARKS/bench-loops" --threads=1000000
    refused "$BENCHMARKS/bench-loops" --rows=8 --repeats=1 --only=nothing
    refused "$BENCH_SCRIPTS/transfer.sh" . "$GPIPE" --set pipeline.replicas=1
    [[ $output == *"no ./train.tar"* ]]
}
