# gpipe train: what it leaves, prints and refuses.
load helper

weights=checkpoints/latest/model.safetensors

@test "a run leaves its files and prints loss and table on stdout" {
    gpipe train run.yaml
    ended 0
    for file in config.yaml tokenizer.json metrics.jsonl report.json log.txt checkpoints/step-4/model.safetensors "$weights"; do
        [ -s "out/$file" ] || fail "no $file"
    done
    [ "$(wc -l <out/metrics.jsonl)" -eq 4 ]
    [ "$(readlink out/checkpoints/latest)" = step-4 ]
    [[ $stdout == "validation loss "*" after 4 steps"* ]] || fail "no loss"
    [[ $stdout == *"planned"*"measured"* ]] || fail "no table"
    [[ $stderr == *"machine:"*"plan: 2 partitions, 2 micro-batches"*"validation loss"* ]] || fail "no messages"
    grep -q "plan: 2 partitions" out/log.txt
    # Two micro-batches, one message each way.
    [[ $stdout == *"comm ms"*"transfer ms"*"0 -> 1 "*"activations"*" 2.0 "* ]] || fail "no links"
    [ "$(grep -c '"messages":4,"message_bytes":[0-9]*,"transfer_seconds":.*"exposed_seconds":.*"blocked_seconds":.*"links":\[{"from":0,"to":1,"messages":2,' out/metrics.jsonl)" -eq 4 ]
    grep -q '"what": "gradients"' out/report.json
    gpipe train run.yaml -q --out one --set pipeline.partitions=1
    ! grep -q messages one/metrics.jsonl
}

@test "--quiet says nothing, --json prints one object" {
    gpipe train run.yaml -q --json
    ended 0
    [ -z "$stderr" ]
    [[ $stdout == "{"*'"validation_loss": '*'"report": {'*"}" ]] || fail "no object"
    gpipe train run.yaml -v --out other
    ended 0
    says "step 1/4"
}

@test "evaluations on the way, checkpoints kept" {
    gpipe train run.yaml --set train.steps=6 --set train.eval_every=2 --set checkpoint.every=1 --set checkpoint.keep=2 --set train.eval_windows=3
    ended 0
    [ "$(grep -c val_loss out/metrics.jsonl)" -eq 3 ]
    [ -e out/checkpoints/step-6/model.safetensors ]
    [ -e out/checkpoints/step-5/model.safetensors ]
    [ ! -e out/checkpoints/step-1 ]
    [ -e out/checkpoints/best/model.safetensors ]
}

@test "the same bits whatever the partitions, the schedule and the recomputation" {
    gpipe train run.yaml --set model.dropout=0.1 --out one --set pipeline.partitions=1
    ended 0
    gpipe train run.yaml --set model.dropout=0.1 --out two --set pipeline.schedule=1f1b --set pipeline.recompute=always
    ended 0
    gpipe train run.yaml --set model.dropout=0.1 --out five --set pipeline.partitions=5 --set pipeline.granularity=layer --set pipeline.schedule=naive
    ended 0
    cmp "one/$weights" "two/$weights"
    cmp "one/$weights" "five/$weights"
    gpipe train run.yaml --set model.dropout=0.1 --out seed --set train.seed=5
    ended 0
    ! cmp -s "one/$weights" "seed/$weights"
}

@test "replicas: the same bits whatever the partitions and the sharding" {
    gpipe train run.yaml --set model.dropout=0.1 --out one --set pipeline.replicas=2 --set pipeline.partitions=1
    ended 0
    says "r1 s0"
    [[ $stdout == *"reduce ms exposed ms"* ]] || fail "no column of the reduction"
    grep -q '"reduce_bytes":[1-9][0-9]*,"reduce_seconds":[0-9].*,"exposed_reduce_seconds":[0-9]' one/metrics.jsonl
    gpipe train run.yaml --set model.dropout=0.1 --out two --set pipeline.replicas=2 --set optimizer.shard=true --set pipeline.schedule=1f1b
    ended 0
    says "2 replicas of 2 partitions"
    cmp "one/$weights" "two/$weights"
    gpipe eval one
    ended 0
    gpipe train run.yaml --set pipeline.replicas=5 --out five
    ended 2
    says "pipeline.replicas is 5, but train.batch has only 4 samples for them to share"
    # shares of 2, 1 and 1
    gpipe train run.yaml --set pipeline.replicas=3 --out three --set pipeline.partitions=1
    ended 0
}

@test "any batch and any number of micro-batches" {
    gpipe train run.yaml --set train.batch=7 --set pipeline.micro_batches=4
    ended 0
    gpipe train run.yaml --set train.batch=2 --set pipeline.micro_batches=4 --out two
    ended 0
    gpipe train run.yaml --set pipeline.micro_batches=1 --set pipeline.partitions=5 --out five
    ended 0
}

@test "a schedule from a file" {
    printf 'F0 F1 B0 B1\nF0 B0 F1 B1\n' >mine.txt
    gpipe train run.yaml --set pipeline.schedule=mine.txt --set pipeline.recompute=never
    ended 0
    gpipe train run.yaml --set pipeline.recompute=never --set pipeline.schedule=1f1b --out made
    cmp "out/$weights" "made/$weights"
    rm mine.txt
    gpipe eval out
    ended 0
    refused 2 "mine.txt could not be opened" train out/config.yaml --out again
}

@test "an existing run directory is refused, --force replaces a run only" {
    gpipe train run.yaml
    ended 0
    cp "out/$weights" first.safetensors
    refused 2 "out exists and is not empty: choose another run directory with --out DIR" train run.yaml
    says "--force"
    gpipe train run.yaml --force --set train.seed=9 --set train.steps=3
    ended 0
    [ ! -e out/checkpoints/step-4 ]
    ! cmp -s first.safetensors "out/$weights"
    mkdir precious
    echo mine >precious/file
    # What is refused later removes nothing.
    gpipe train run.yaml --force --set device.memory=1KiB
    ended 3
    [ -e "out/checkpoints/step-3/model.safetensors" ] && [ -e out/config.yaml ]
    refused 2 "precious is not a run of gpipe" train run.yaml --out precious --force
    [ -e precious/file ]
}

@test "the run directory is made with its parents; an empty one is fine" {
    gpipe train run.yaml --out a/b/c
    ended 0
    [ -e a/b/c/report.json ]
    mkdir empty
    gpipe train run.yaml --out empty
    ended 0
    cp run.yaml named.yaml
    sed -i '/out: out/d' named.yaml
    gpipe train named.yaml
    ended 0
    [ -e runs/named/report.json ]
}

@test "a run directory that cannot be written" {
    echo >file
    refused 2 "file is not a directory" train run.yaml --out file
    refused 2 "could not be created" train run.yaml --out file/below
    if [ "$(id -u)" != 0 ]; then
        mkdir locked
        chmod a-w locked
        refused 2 "could not be created" train run.yaml --out locked/run
    fi
}

@test "a memory limit that is too small: status 3, who needs what, nothing left behind" {
    refused 3 "more than device.memory" train run.yaml --set device.memory=10KiB
    says "workspace"
    [ ! -e out ]
}

@test "NaN stops the run with status 5, or is skipped" {
    gpipe train run.yaml --set optimizer.name=sgd --set optimizer.lr=1e8 --set train.steps=40
    ended 5
    says "diverged: "
    silent_about "no update is made"
    says "layer"
    gpipe train run.yaml --set optimizer.name=sgd --set optimizer.lr=1e8 --set train.steps=40 --set train.on_nan=skip --out skip
    ended 0
    says "no update is made"
}

@test "optimizers, learning-rate schedules, precisions, devices" {
    for more in optimizer.name=adam optimizer.name=sgd optimizer.schedule.name=cosine optimizer.schedule.name=step \
        optimizer.schedule.name=inverse_sqrt device.precision=bf16 device.type=reference data.sampling=sequential data.tokenizer=byte; do
        gpipe train run.yaml --set "$more" --force -q
        ended 0
    done
}

@test "a trace on demand" {
    gpipe train run.yaml --set train.trace=true
    ended 0
    grep -q '"ph"' out/trace.json
}

@test "without a validation split there is no validation loss" {
    gpipe train run.yaml --set data.validation=0
    ended 0
    silent_about "validation loss"
}
