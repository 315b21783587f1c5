# gpipe started by mpirun: one run of several processes. $MPIRUN is the launcher with its options, $IMPLEMENTATION its name.
load processes

@test "the same bits as threads, for any grid; everything is said once" {
    gpipe train run.yaml --set model.dropout=0.1 --set pipeline.partitions=4 --out threads
    ended 0
    together -n 4 "$GPIPE" train run.yaml --set model.dropout=0.1 --out ranks
    ended 0
    cmp "threads/$weights" "ranks/$weights"
    [ "$(grep -c 'validation loss .* after 4 steps' stdout.txt)" -eq 1 ] || fail "not said once"
    [ "$(grep -c 'plan: 4 partitions' stderr.txt)" -eq 1 ] || fail "not said once"
    [ "$(wc -l <ranks/metrics.jsonl)" -eq 4 ]
    together -n 2 "$GPIPE" train run.yaml --set model.dropout=0.1 --set pipeline.partitions=4 --set pipeline.workers_per_rank=2 --out hosts
    ended 0
    cmp "threads/$weights" "hosts/$weights"
}

@test "replicas over ranks, optimizer state sharded; what is left open is worked out" {
    gpipe train run.yaml --set pipeline.replicas=2 --set pipeline.partitions=2 --out threads
    ended 0
    together -n 4 "$GPIPE" train run.yaml --set pipeline.replicas=2 --out ranks
    ended 0
    says "plan: 2 replicas of 2 partitions"
    cmp "threads/$weights" "ranks/$weights"
    together -n 4 "$GPIPE" train run.yaml --set pipeline.partitions=2 --set optimizer.shard=true --out sharded
    ended 0
    cmp "threads/$weights" "sharded/$weights"
    grep -q '"host"' ranks/report.json
}

@test "grids that do not fit the ranks are refused once" {
    together -n 3 "$GPIPE" train run.yaml --set pipeline.partitions=2 --set pipeline.replicas=1
    ended 2
    [ "$(grep -c '3 ranks were started, but pipeline.partitions x pipeline.replicas is 2 x 1: start 2 ranks' stderr.txt)" -eq 1 ] || fail "not said once"
    together -n 3 "$GPIPE" train run.yaml --set pipeline.partitions=2
    ended 2
    together -n 2 "$GPIPE" train run.yaml --set pipeline.workers_per_rank=5
    ended 2
    says "pipeline.partitions is 10, but the model has only"
    [ ! -e out ]
}

@test "a rank with another configuration, other data or without its data is refused" {
    sed 's/batch: 4/batch: 8/' run.yaml >other.yaml
    together -n 1 "$GPIPE" train run.yaml : -n 1 "$GPIPE" train other.yaml
    ended 2
    says "the configuration (train) of rank 1"
    mkdir elsewhere
    cp run.yaml elsewhere
    together -n 1 "$GPIPE" train run.yaml : -n 1 sh -c "cd elsewhere && exec $GPIPE train run.yaml"
    ended 2
    says "rank 1 (host"
    says "corpus.txt"
    tr 'a' 'e' <corpus.txt | sed 's/e/a/' >elsewhere/corpus.txt
    together -n 1 "$GPIPE" train run.yaml : -n 1 sh -c "cd elsewhere && exec $GPIPE train run.yaml"
    ended 2
    says "the data of rank 1"
}

@test "plans know hosts; evaluation together; other commands are refused" {
    together -n 4 "$GPIPE" plan run.yaml
    ended 0
    [[ $stdout == *"host"* ]] || fail "no hosts"
    [ "$(grep -c 'parameters' stdout.txt)" -eq 2 ] || fail "not printed once"
    gpipe train run.yaml --set pipeline.partitions=2
    ended 0
    gpipe eval out
    ended 0
    alone=$stdout
    together -n 3 "$GPIPE" eval out
    ended 0
    [ "$(grep -a 'loss' stdout.txt)" = "$alone" ] || fail "another loss"
    together -n 2 "$GPIPE" profile run.yaml
    ended 2
    says "is the work of one process, but 2 were started"
}

@test "ranks that differ: speeds and limits are of the ranks' workers; links between ranks are measured" {
    together -n 2 "$GPIPE" plan run.yaml --set pipeline.balance=flops --set 'pipeline.speeds=[1, 0.01]' --json
    ended 0
    says '"speed": 0.01'
    [ "$(grep -c '"last_layer": 5' stdout.txt)" -eq 1 ] || fail "the slow one holds more than a layer"
    # Layers are measured on both, as fast as they are said to be.
    together -n 2 "$GPIPE" plan run.yaml --set pipeline.balance=time --set 'pipeline.speeds=[0.01, 1]'
    ended 0
    [[ $stdout == *"speed"*"host"* ]] || fail "no column"
    grep -q '^ *0  0-0 ' stdout.txt || fail "the slow one holds more than a layer"
    together -n 2 "$GPIPE" train run.yaml --set 'device.memory=[none, 1KiB]'
    ended 3
    says "device.memory of the worker = 1.00 KiB: worker 1 needs"
    together -n 2 "$GPIPE" train run.yaml --set pipeline.balance=time --set 'pipeline.speeds=[1, 0.2]'
    ended 0
    [ "$(grep -c '"messages":4,"message_bytes":[1-9].*"transfer_seconds":.*"links":\[{"from":0,"to":1,' out/metrics.jsonl)" -eq 4 ]
    [[ $stdout == *"comm ms"*"host"*"transfer ms"* ]] || fail "no columns"
    gpipe train run.yaml --out threads --set pipeline.partitions=2
    cmp "threads/$weights" "out/$weights"
}

@test "a rank that is killed ends the run: all ranks in turn" {
    for rank in 0 1 2 3; do
        rm -rf out
        start_long_run
        kill -9 "$(pid_of $rank)"
        await_end
        [ "$status" -ne 0 ] || fail "status 0"
        # MPICH's launcher may be faster than those who want to say it.
        [ "$IMPLEMENTATION" = mpich ] || says "rank $rank (host "
        [ "$IMPLEMENTATION" = mpich ] || says "was lost: its process ended"
        gpipe inspect "out/checkpoints/latest/model.safetensors" || true
        [ ! -e out/checkpoints/latest ] || [ -s out/checkpoints/latest/model.safetensors ]
    done
}

@test "what was killed goes on with the very same bits, on another grid" {
    gpipe train run.yaml --set train.steps=400 --set pipeline.partitions=2 --set model.dropout=0.1 --out whole
    ended 0
    start_long_run --set train.steps=400 --set checkpoint.every=3 --set model.dropout=0.1
    kill -9 "$(pid_of $((RANDOM % 4)))"
    await_end
    [ "$status" -ne 0 ]
    together -n 3 "$GPIPE" train run.yaml --set train.steps=400 --set model.dropout=0.1 --resume out
    ended 0
    cmp "whole/$weights" "out/$weights"
    [ "$(wc -l <out/metrics.jsonl)" -eq 400 ]
}

@test "a rank that is stopped is named" {
    start_long_run --set pipeline.report_after=1
    pid=$(pid_of 2)
    kill -STOP "$pid"
    for _ in $(seq 1 150); do
        grep -qa "silent for" stderr.txt && break
        sleep 0.1
    done
    grep -a "has waited" stderr.txt | grep -qaE "rank 2(,| \() *host .*, which has been silent" || fail "$(cat stderr.txt)"
    kill -9 "$pid"
    await_end
    [ "$status" -ne 0 ]
}

@test "rank 0 that is stopped is named by another one" {
    start_long_run --set pipeline.report_after=1
    pid=$(pid_of 0)
    kill -STOP "$pid"
    for _ in $(seq 1 150); do
        grep -qa "silent for" stderr.txt && break
        sleep 0.1
    done
    grep -a "has waited" stderr.txt | grep -qaE "rank 0(,| \() *host .*, which has been silent" || fail "$(cat stderr.txt)"
    kill -9 "$pid"
    await_end
    [ "$status" -ne 0 ]
}

@test "a signal to one rank finishes the run of all in good order" {
    start_long_run
    kill -TERM "$(pid_of 3)"
    await_end
    [ "$status" -eq 0 ]
    says "interrupted after step"
    [ -s "out/$weights" ]
    [ "$(grep -ac 'interrupted after step' stderr.txt)" -eq 1 ] || fail "not said once"
}

@test "logs of ranks on request" {
    together -n 2 "$GPIPE" train run.yaml --rank-logs
    ended 0
    [ -e out/log.txt ]
    [ -e out/log-rank-1.txt ]
}

@test "another version of gpipe is refused at start" {
    [ -n "${OTHER_VERSION:-}" ] || skip "not with sanitizers"
    together -n 1 "$GPIPE" train run.yaml : -n 1 env LD_PRELOAD="$OTHER_VERSION" "$GPIPE" train run.yaml
    ended 2
    says "the version of gpipe of rank 1"
    [ ! -e out/metrics.jsonl ]
}

@test "unequal shares are legal: replicas that do not divide the batch; more replicas than samples are not" {
    gpipe train run.yaml --set train.batch=5 --set pipeline.replicas=3 --set pipeline.partitions=1 --out threads
    ended 0
    together -n 3 "$GPIPE" train run.yaml --set train.batch=5 --set pipeline.replicas=3 --out ranks
    ended 0
    cmp "threads/$weights" "ranks/$weights"
    together -n 3 "$GPIPE" train run.yaml --set train.batch=2 --set pipeline.replicas=3 --out none
    ended 2
    says "pipeline.replicas is 3, but train.batch has only 2 samples"
    [ ! -e none ]
}

@test "one rank, with and without mpirun, is a run of one process" {
    gpipe train run.yaml --set pipeline.partitions=2 --out alone
    ended 0
    together -n 1 "$GPIPE" train run.yaml --set pipeline.partitions=2 --out one
    ended 0
    cmp "alone/$weights" "one/$weights"
    together -n 1 "$GPIPE" inspect "one/$weights"
    ended 0
    # As ranks 0 and 1 of a run, but without mpirun around them.
    [ "$IMPLEMENTATION" = mpich ] || return 0
    status=0
    output=$(PMI_SIZE=2 PMI_RANK=0 timeout 20 "$GPIPE" train run.yaml --out none 2>&1 </dev/null) || status=$?
    [ "$status" -ne 0 ] || fail "trained alone"
    [ ! -e none/metrics.jsonl ]
}

@test "Slurm that starts ranks which MPI takes for single processes is refused" {
    status=0
    output=$(SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 GPIPE_MPI=$IMPLEMENTATION timeout 60 "$GPIPE" train run.yaml --out none 2>&1 </dev/null) ||
        status=$?
    ended 2
    says "srun (Slurm) started 2 processes, but MPI"
    says "srun --mpi="
    [ ! -e none ]
}

@test "an MPI without a module, or of another name, is refused" {
    GPIPE_MPI=lam together -n 2 "$GPIPE" train run.yaml
    [ "$status" -eq 2 ] || fail "not refused"
    says "gpipe has no module for the MPI implementation lam"
}

@test "a folder without modules, and modules that cannot be opened, are refused with the reason" {
    mkdir none broken missing
    GPIPE_MODULES=none together -n 2 "$GPIPE" train run.yaml
    [ "$status" -eq 2 ] || fail "not refused"
    says "it has no module for it: $IMPLEMENTATION was looked for"
    for name in openmpi mpich; do echo garbage >"broken/gpipe-mpi-$name.so"; done
    GPIPE_MODULES=broken together -n 2 "$GPIPE" train run.yaml
    [ "$status" -eq 2 ] || fail "not refused"
    says "it has no module for it that can be opened ("
    # As where gpipe is installed and the MPI library is not.
    sed 's/libmpi/libmpx/g' "$GPIPE_MODULES/gpipe-mpi-$IMPLEMENTATION.so" >"missing/gpipe-mpi-$IMPLEMENTATION.so"
    GPIPE_MODULES=missing GPIPE_MPI=$IMPLEMENTATION together -n 2 "$GPIPE" train run.yaml
    [ "$status" -eq 2 ] || fail "not refused"
    says "gpipe has no module for the MPI implementation $IMPLEMENTATION that can be opened (libmpx"
    [ ! -e out ]
}

@test "what all processes refuse before they know of each other is said once, what one refuses is said" {
    together -n 3 "$GPIPE" profile run.yaml
    [ "$status" -ne 0 ] || fail "not refused"
    [ "$(grep -c 'is the work of one process, but 3 were started' stderr.txt)" -eq 1 ] || fail "not said once"
    mkdir none
    GPIPE_MODULES=none together -n 3 "$GPIPE" train run.yaml
    [ "$status" -ne 0 ] || fail "not refused"
    [ "$(grep -c 'it has no module for it' stderr.txt)" -eq 1 ] || fail "not said once"
    together -n 1 "$GPIPE" train run.yaml : -n 1 "$GPIPE" train run.yaml --nonsense
    [ "$status" -ne 0 ] || fail "not refused"
    says "--nonsense"
}

@test "a module of another version is refused" {
    OTHER_MODULE=yes GPIPE_MODULES=$HANGING_MODULES together -n 2 "$GPIPE" train run.yaml
    ended 2
    says "the module gpipe-mpi-$IMPLEMENTATION.so belongs to another version of gpipe"
}

@test "an MPI that does not come back from MPI_Finalize: the process says so and ends with the status of its work" {
    export REAL_MODULE="$GPIPE_MODULES/gpipe-mpi-$IMPLEMENTATION.so"
    GPIPE_MODULES=$HANGING_MODULES together -n 2 "$GPIPE" train run.yaml
    ended 0
    says "has nothing left to do, but MPI ("
    says "has not come back from MPI_Finalize for 5 seconds: the process ends without it, with status 0"
    [ -s "out/$weights" ]
    GPIPE_MODULES=$HANGING_MODULES together -n 2 "$GPIPE" train run.yaml --set train.batch=0
    ended 2
    says "ends without it, with status 2"
    # Refused while it joins: the error is told by who ends the process.
    export GPIPE_MPI=$IMPLEMENTATION GPIPE_MODULES=$HANGING_MODULES
    status=0
    output=$(SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 timeout 60 "$GPIPE" train run.yaml --out none 2>&1 </dev/null) || status=$?
    ended 2
    says "srun (Slurm) started 2 processes, but MPI"
    says "ends without it, with status 2"
}

# On an srun and an scontrol made of the launcher: a signal before the end of the time, then the rest, then an error that
# would come again.
@test "the batch script of the documentation goes on until all steps are made" {
    mkdir bin
    cat >bin/srun <<'SH'
#!/bin/bash
shift
exec $MPIRUN -n 2 "$GPIPE" "$@" --set pipeline.partitions=2 --set pipeline.replicas=1 --set device.threads=1 --set train.steps="$STEPS" </dev/null
SH
    printf '#!/bin/sh\necho "$@" >>requeued\n' >bin/scontrol
    chmod +x bin/*
    sed -n '/^#!\/bin\/sh/,/^```/p' "$BATS_TEST_DIRNAME/../../docs/clusters.md" | grep -v '^```' >batch.sh
    sed -i '/out: out/d' run.yaml
    submit() { # STEPS
        status=0
        output=$(sed "s/step-2000/step-$1/" batch.sh | STEPS=$1 SLURM_JOB_ID=7 PATH="$PWD/bin:$PATH" timeout -k 5 100 sh 2>&1) || status=$?
    }
    (
        for _ in $(seq 1 300); do
            [ -e runs/run/metrics.jsonl ] && [ "$(wc -l <runs/run/metrics.jsonl)" -gt 3 ] && break
            sleep 0.1
        done
        kill -USR1 "$(pid_of 1)"
    ) &
    submit 10000000
    wait
    ended 0
    says "interrupted after step"
    [ "$(cat requeued)" = "requeue 7" ] || fail "not requeued"
    steps=$(($(wc -l <runs/run/metrics.jsonl) + 20))
    submit $steps
    ended 0
    [ -e "runs/run/checkpoints/step-$steps/model.safetensors" ]
    [ "$(wc -l <requeued)" -eq 1 ] || fail "requeued after the last step"
    echo "nonsense: 1" >>run.yaml
    submit $((steps + 10))
    ended 2
    [ "$(wc -l <requeued)" -eq 1 ] || fail "requeued after an error"
}
