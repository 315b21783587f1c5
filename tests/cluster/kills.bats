# Ranks that die at random instants, again and again: the run ends soon and says who it was, nothing is left, and it goes on
# with the same bits. GPIPE_TEST_KILLS says how often (6; 20 with GPIPE_TEST_LONG=1), GPIPE_TEST_SEED repeats a run.
load processes

kills=${GPIPE_TEST_KILLS:-${GPIPE_TEST_LONG:+20}}
kills=${kills:-6}
last=600

# Waits until the run has made so many steps; `begin`: until its processes are there.
await_instant() {
    for _ in $(seq 1 6000); do
        if [ "$1" = begin ]; then
            [ "$(pids | wc -l)" -ge "$ranks" ] && return
        else
            [ -e out/metrics.jsonl ] && [ "$(wc -l <out/metrics.jsonl)" -ge "$1" ] && return
        fi
        kill -0 "$launcher" 2>/dev/null || fail "the run has ended: $(cat stderr.txt)"
        sleep 0.02
    done
    fail "no steps: $(cat stderr.txt)"
}

# The last step of a checkpoint, 0: there is none.
newest() {
    local latest
    latest=$(readlink out/checkpoints/latest) || latest=step-0
    echo "${latest##*step-}"
}

@test "kill -9 of ranks in turn at random instants: soon over, named, nothing left, resumed with the same bits" {
    RANDOM=${GPIPE_TEST_SEED:-$$}
    echo "# GPIPE_TEST_SEED=${GPIPE_TEST_SEED:-$$}, $kills kills" >&3
    sed -i 's/steps: 4/steps: 1000000/' run.yaml
    # What any run has to come to: checkpoints of every tenth step of one process.
    gpipe train run.yaml --set train.steps=$last --set pipeline.partitions=2 --set model.dropout=0.1 --set checkpoint.every=10 \
        --set checkpoint.keep=1000 --out whole
    ended 0
    for kill in $(seq 1 "$kills"); do
        rm -rf out
        ranks=$((2 + kill % 3))
        rank=$((kill * 7 % ranks))
        instant=$((1 + RANDOM % 100))
        [ $((kill % 6)) -ne 5 ] || instant=begin
        timeout -k 5 200 $MPIRUN -n $ranks "$GPIPE" train run.yaml --set model.dropout=0.1 --set checkpoint.every=10 \
            >stdout.txt 2>stderr.txt </dev/null &
        launcher=$!
        if [ $instant = begin ]; then await_instant begin; else await_instant 1; fi
        pid=$(pid_of $rank) # looking for it takes a while
        [ $instant = begin ] || await_instant $instant
        begun=$SECONDS
        kill -9 "$pid"
        await_end # fails after 30 s, or when processes are left
        took=$((SECONDS - begun))
        [ "$status" -ne 0 ] || fail "status 0 when rank $rank of $ranks was killed"
        # MPICH's launcher may be faster than those who want to say it; before ranks know each other only the launcher can.
        [ "$IMPLEMENTATION" = mpich ] || grep -qaE "rank $rank (\(host|with PID)" stderr.txt || fail "nobody names rank $rank"
        step=$(newest)
        goal=$(((step + 20) / 10 * 10))
        [ "$goal" -le "$last" ] || fail "step $step: the run went on for longer than it can be compared"
        together -n $((2 + RANDOM % 3)) "$GPIPE" train run.yaml --set model.dropout=0.1 --set train.steps=$goal --resume auto
        ended 0
        cmp "whole/checkpoints/step-$goal/model.safetensors" "out/$weights"
        [ "$(wc -l <out/metrics.jsonl)" -eq "$goal" ] || fail "$(wc -l <out/metrics.jsonl) lines of metrics for $goal steps"
        echo "# $kill: rank $rank of $ranks at $instant steps, over after $took s; resumed from step $step" >&3
    done
}

# MPI itself may wait for ever for a process that has ended in the middle of its start.
@test "kill -9 of ranks while they start: soon over, nothing left" {
    RANDOM=${GPIPE_TEST_SEED:-$$}
    echo "# GPIPE_TEST_SEED=${GPIPE_TEST_SEED:-$$}" >&3
    ranks=4
    for kill in $(seq 1 $((3 * kills))); do
        rank=$((RANDOM % ranks))
        delay=0.0$((RANDOM % 6))$((RANDOM % 10))
        timeout -k 5 200 $MPIRUN -n $ranks "$GPIPE" train run.yaml --set train.steps=1000000 --out "out-$kill" \
            >stdout.txt 2>stderr.txt </dev/null &
        launcher=$!
        await_instant begin
        pid=$(pid_of $rank)
        sleep $delay
        kill -9 "$pid"
        await_end
        [ "$status" -ne 0 ] || fail "status 0 when rank $rank of $ranks was killed $delay s after its start"
    done
}

# A process that never comes to MPI_Init, and the signal that would say that it has ended.
@test "the launcher's news of a lost process end the wait for it" {
    [ "$IMPLEMENTATION" = mpich ] || skip "Open MPI's launcher ends all processes"
    timeout -k 5 200 $MPIRUN -n 1 "$GPIPE" train run.yaml : -n 1 sleep 600 >stdout.txt 2>stderr.txt </dev/null &
    launcher=$!
    ranks=1
    await_instant begin
    pid=$(pid_of 0)
    for _ in $(seq 1 300); do # until the signal is blocked: 0x200
        blocked=$(sed -n 's/^SigBlk:[[:space:]]*//p' "/proc/$pid/status")
        [ $((0x$blocked & 0x200)) -ne 0 ] && break
        sleep 0.02
    done
    if [ -n "$GPIPE_TEST_LONG" ]; then
        sleep 32
        grep -q "MPI has waited 30 s for all processes of the run to start" stderr.txt || fail "the wait is not told of"
    fi
    kill -USR1 "$pid"
    for _ in $(seq 1 300); do
        [ -z "$(pids)" ] && break
        sleep 0.05
    done
    [ -z "$(pids)" ] || fail "it waits on"
    kill -TERM "$launcher" 2>/dev/null || true # it may have ended too
    wait "$launcher" || true
    grep -q "the signal SIGUSR1 came before all processes of the run had started" stderr.txt || fail "nothing is said"
}
