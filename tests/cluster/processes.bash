# What suites share that start runs of several processes. $MPIRUN is the launcher with its options, $IMPLEMENTATION its name.
load ../cli/helper

weights=checkpoints/latest/model.safetensors

# The processes of a test find themselves by this.
setup() {
    export GPIPE_TEST_MARK="$BATS_TEST_TMPDIR"
    cd "$BATS_TEST_TMPDIR"
    make_corpus
    make_config
    sed -i 's/layers: 2/layers: 4/; /partitions: 2/d' run.yaml
}

# No process of the test is left behind.
teardown() {
    for pid in $(pids); do kill -9 "$pid" 2>/dev/null || true; done
}

# Quickly: the run that is looked for goes on meanwhile.
pids() {
    local comm name pid
    for comm in /proc/[0-9]*/comm; do
        read -r name 2>/dev/null <"$comm" || continue
        pid=${comm#/proc/}
        pid=${pid%/comm}
        [ "$name" = gpipe ] && grep -zqsxF "GPIPE_TEST_MARK=$GPIPE_TEST_MARK" "/proc/$pid/environ" && echo "$pid"
    done
    true
}

# The process of a rank.
pid_of() {
    for pid in $(pids); do
        grep -zqsxE "(OMPI_COMM_WORLD_RANK|PMI_RANK)=$1" "/proc/$pid/environ" && echo "$pid" && return
    done
    fail "there is no rank $1"
}

# Runs a command with its output in $output, $stdout, $stderr and its status in $status.
together() {
    status=0
    timeout -k 5 100 $MPIRUN "$@" >stdout.txt 2>stderr.txt </dev/null || status=$?
    stdout=$(cat stdout.txt)
    stderr=$(cat stderr.txt)
    output="$stdout
$stderr"
}

# Starts a long run of 4 ranks in the background and waits until it makes steps.
start_long_run() {
    timeout -k 5 100 $MPIRUN -n 4 "$GPIPE" train run.yaml --set train.steps=1000000 --set checkpoint.every=20 "$@" \
        >stdout.txt 2>stderr.txt </dev/null &
    launcher=$!
    for _ in $(seq 1 300); do
        [ -s out/metrics.jsonl ] && [ "$(wc -l <out/metrics.jsonl)" -gt 3 ] && return
        sleep 0.1
    done
    fail "no steps: $(cat stderr.txt)"
}

# Waits (at most 30 s) for the end of the run; its status is in $status.
await_end() {
    for _ in $(seq 1 300); do
        kill -0 "$launcher" 2>/dev/null || break
        sleep 0.1
    done
    kill -0 "$launcher" 2>/dev/null && fail "the run has not ended"
    status=0
    wait "$launcher" || status=$?
    output=$(cat stdout.txt stderr.txt)
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        [ -z "$(pids)" ] && return
        sleep 0.3
    done
    fail "processes are left: $(pids)"
}
