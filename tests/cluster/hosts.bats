# Runs over several machines: network namespaces with addresses and cables of their own (tools/virtual-hosts, which is
# $VIRTUAL_HOSTS). $IMPLEMENTATION names the MPI.
load ../cli/helper

weights=checkpoints/latest/model.safetensors

setup_file() {
    HOSTS_SKIP=""
    reason=$("$VIRTUAL_HOSTS" --hosts 1 true 2>&1) || HOSTS_SKIP="${reason:-no virtual hosts}"
    export HOSTS_SKIP
}

setup() {
    [ -z "$HOSTS_SKIP" ] || skip "$HOSTS_SKIP"
    cd "$BATS_TEST_TMPDIR"
    # Without these Open MPI's launcher waits for a machine that is gone for minutes, and MPICH's kills everybody at once.
    case $IMPLEMENTATION in
    openmpi) LAUNCHER_OPTIONS="--mca oob_tcp_keepalive_time 4 --mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3" ;;
    mpich) LAUNCHER_OPTIONS=-disable-auto-cleanup ;;
    esac
    export LAUNCHER_OPTIONS
    make_corpus
    make_config
    sed -i 's/layers: 2/layers: 4/; /partitions: 2/d' run.yaml
}

# on_hosts OPTIONS COMMAND: a shell command as on the first of four machines.
on_hosts() {
    status=0
    # shellcheck disable=SC2086
    timeout -k 5 120 "$VIRTUAL_HOSTS" --mpi "$IMPLEMENTATION" $1 bash -c "$2" >stdout.txt 2>stderr.txt </dev/null || status=$?
    stdout=$(cat stdout.txt)
    stderr=$(cat stderr.txt)
    output="$stdout
$stderr"
}

@test "four machines, cables of 1 Gbit/s and 1 ms: the same bits as threads" {
    gpipe train run.yaml --set model.dropout=0.1 --set pipeline.partitions=4 --out threads
    ended 0
    on_hosts "--rate 1gbit --delay-if-any 1ms" '$MPIRUN -n 4 "$GPIPE" train run.yaml --set model.dropout=0.1 --out hosts &&
        "$VIRTUAL_HOSTS_AGENT" h3 cat /sys/class/net/eth0/statistics/rx_bytes >received'
    ended 0
    cmp "threads/$weights" "hosts/$weights"
    for host in h0 h1 h2 h3; do
        grep -q "\"host\": \"$host\"" hosts/report.json || fail "nothing is on $host"
    done
    # 4 steps of 4 samples, 16 tokens, 16 elements
    [ "$(cat received)" -gt 16384 ] || fail "the last machine received $(cat received) bytes"
    [ "$(grep -c 'plan: 4 partitions' stderr.txt)" -eq 1 ] || fail "not said once"
}

@test "replicas of pipelines over machines, optimizer state sharded: the same bits as threads" {
    gpipe train run.yaml --set pipeline.partitions=2 --set pipeline.replicas=2 --out threads
    ended 0
    on_hosts "--rate 1gbit" '$MPIRUN -n 4 "$GPIPE" train run.yaml --set pipeline.replicas=2 --set optimizer.shard=true --out hosts'
    ended 0
    cmp "threads/$weights" "hosts/$weights"
}

# What every long run needs: waits for its first steps, then at most 40 s for its end and that of all processes: 20 s of
# silence until a machine is lost, 2 s for who speaks of it, 5 s for an MPI that does not come back from MPI_Abort.
long_run='
    $MPIRUN $LAUNCHER_OPTIONS -n 4 "$GPIPE" train run.yaml --set train.steps=1000000 --set checkpoint.every=20 &
    launcher=$!
    for i in $(seq 1 600); do
        [ -s out/metrics.jsonl ] && [ "$(wc -l <out/metrics.jsonl)" -gt 25 ] && break
        sleep 0.1
    done
    await_end() {
        limit=$((SECONDS + 40))
        while [ "$SECONDS" -lt "$limit" ] && { kill -0 $launcher 2>/dev/null || pgrep -x gpipe >/dev/null; }; do
            sleep 0.1
        done
        if kill -0 $launcher 2>/dev/null; then
            echo "the run has not ended"
            kill -9 $launcher
        fi
        status=0
        wait $launcher || status=$?
        pgrep -x gpipe >/dev/null && echo "processes are left"
        exit $status
    }
'

@test "a rank that is killed on another machine is named, and the others end" {
    on_hosts --apart "$long_run"'
        victim=$("$VIRTUAL_HOSTS_AGENT" h2 "pgrep -x gpipe" | while read -r pid; do
            tr "\0" "\n" <"/proc/$pid/environ" | grep -qE "^(OMPI_COMM_WORLD_RANK|PMI_RANK)=2\$" && echo "$pid"
        done)
        kill -9 $victim
        await_end'
    [ "$status" -ne 0 ]
    silent_about "has not ended"
    silent_about "are left"
    [ "$IMPLEMENTATION" = mpich ] || grep -qE 'rank 2 .*h2|process rank 2 .*h2' stderr.txt || fail "nobody names rank 2"
    [ -s "out/$weights" ]
}

@test "a machine whose cable is cut is named, and the others end" {
    on_hosts --apart "$long_run"'
        ip -n h1 link set eth0 down
        await_end'
    [ "$status" -ne 0 ]
    silent_about "has not ended"
    silent_about "are left"
    # By gpipe after 20 seconds of silence, unless the launcher is faster.
    [ "$IMPLEMENTATION" = mpich ] || grep -qE "rank 1 \(host h1|node h1" stderr.txt || fail "nobody names rank 1 or h1"
    [ -s "out/$weights" ]
}
