# gpipe train --resume: the same bits, from where, with what, and what is refused.
load helper

# whole STEPS ARGUMENT...: an uninterrupted run in "whole".
whole() {
    local steps=$1
    shift
    gpipe train run.yaml -q --out whole --set train.steps="$steps" "$@"
    ended 0
}

# same STEP: the checkpoints of "whole" and "out" hold the same bits.
same() {
    for file in model.safetensors optimizer.safetensors; do
        cmp "whole/checkpoints/step-$1/$file" "out/checkpoints/step-$1/$file" || fail "$file differs"
    done
}

# The step numbers of metrics.jsonl, on a line.
steps_of() {
    sed 's/^{"step":\([0-9]*\),.*/\1/' "$1/metrics.jsonl" | tr '\n' ' '
}

@test "a run goes on with the same bits on other partitions, another schedule and recomputation" {
    whole 8 --set model.dropout=0.1
    gpipe train run.yaml --set model.dropout=0.1
    ended 0
    gpipe train --resume out --set train.steps=6 --set pipeline.partitions=3 --set pipeline.schedule=1f1b --set pipeline.recompute=always
    ended 0
    says "out goes on after step 4 of 6, changed: pipeline.partitions 2 -> 3, pipeline.schedule gpipe -> \"1f1b\", pipeline.recompute except_last -> always, train.steps 4 -> 6"
    grep -q 'partitions: 3' out/config.yaml
    grep -q 'goes on after step 4' out/log.txt
    grep -q 'step 4/4' out/log.txt # of the first part
    gpipe train --resume out --set train.steps=8 --set pipeline.partitions=1 --set pipeline.recompute=never
    ended 0
    same 8
    [ "$(steps_of out)" = "1 2 3 4 5 6 7 8 " ] || fail "$(steps_of out)"
}

@test "a checkpoint by name, and back to an older one" {
    whole 6 --set checkpoint.every=2 --set checkpoint.keep=9
    gpipe train run.yaml --set train.steps=6 --set checkpoint.every=2 --set checkpoint.keep=9
    refused 2 "going back to step 2 would lose later checkpoints" train --resume out/checkpoints/step-2
    [ -d out/checkpoints/step-6 ]
    gpipe train --resume out/checkpoints/step-2 --force
    ended 0
    says "goes on after step 2 of 6"
    same 6
    [ "$(steps_of out)" = "1 2 3 4 5 6 " ]
    gpipe train --resume out/checkpoints/latest --set train.steps=7
    ended 0
    says "goes on after step 6 of 7"
}

@test "--resume auto begins, goes on, and knows when it is done" {
    whole 6
    gpipe train run.yaml --resume auto --set checkpoint.every=1
    ended 0
    silent_about "goes on"
    gpipe train run.yaml --resume auto --set checkpoint.every=1 --set train.steps=6
    ended 0
    says "out goes on after step 4 of 6"
    same 6
    gpipe train run.yaml --resume auto --set checkpoint.every=1 --set train.steps=6
    ended 0
    says "out has made its 6 steps"
    gpipe train run.yaml --resume auto --set checkpoint.every=1 --set train.steps=6 --json
    [ "$(echo "$stdout" | tr -d ' \n')" = '{"out":"out","steps":6,"complete":true}' ]
    # A run that died before its first checkpoint begins again; what is no run is not touched.
    rm -rf out/checkpoints
    gpipe train run.yaml --resume auto
    ended 0
    [ "$(steps_of out)" = "1 2 3 4 " ]
    mkdir mine
    echo precious >mine/file
    refused 2 "mine is not a run of gpipe" train run.yaml --resume auto --out mine
    refused 2 "--resume auto needs a configuration" train --resume auto
}

@test "what must not differ is refused with its name" {
    gpipe train run.yaml -q
    refused 2 "out cannot go on with a configuration that differs from its own in model.width (16 there, 32 here), train.batch (4 there, 8 here), train.seed (0 there, 7 here)" \
        train --resume out --set model.width=32 --set train.batch=8 --set train.seed=7 --set train.steps=9
    refused 2 "pipeline.micro_batches (2 there, 4 here)" train run.yaml --resume out --set pipeline.micro_batches=4
    refused 2 "optimizer.name (adamw there, adam here)" train --resume out --set optimizer.name=adam
    refused 2 "device.precision (f32 there, bf16 here)" train --resume out --set device.precision=bf16
    head -c 1200 corpus.txt >half.txt
    cp out/config.yaml before.yaml
    refused 2 "the data has 1080 tokens for training and 120 for validation, but the checkpoint was made with 2160 and 240" \
        train --resume out --set data.text=half.txt --set train.steps=9
    cmp before.yaml out/config.yaml # nothing has changed
    mv corpus.txt moved.txt
    gpipe train --resume out --set data.text=moved.txt --set train.steps=5
    ended 0
    says "goes on after step 4 of 5"
}

@test "steps, learning rate and its schedule may change" {
    gpipe train run.yaml -q
    gpipe train --resume out --set train.steps=6 --set optimizer.lr=1e-4 --set optimizer.schedule.name=cosine --set optimizer.clip=1 --set checkpoint.keep=5
    ended 0
    says "changed: optimizer.lr 0.001 -> 0.0001, optimizer.clip 0 -> 1, optimizer.schedule.name constant -> cosine, train.steps 4 -> 6, checkpoint.keep 2 -> 5"
    grep -q '"step":6,.*"lr":' out/metrics.jsonl
    ! grep -q '"step":6,.*"lr":0.001,' out/metrics.jsonl
    grep -q 'lr: 0.0001' out/config.yaml
}

@test "what is no run is said to be none" {
    mkdir empty
    refused 2 "empty is neither a run directory" train --resume empty
    refused 2 "nowhere is neither a run directory" train --resume nowhere
    refused 2 "run.yaml is missing" train
    gpipe train run.yaml -q
    refused 2 "--out and --resume out exclude each other" train --resume out --out other
    refused 2 "--out and --resume out exclude each other" train --resume out --set train.out=other
    rm -rf out/checkpoints
    refused 2 "there is no whole checkpoint in out/checkpoints" train --resume out
}

@test "a damaged checkpoint is passed over with a warning, or refused when it was named" {
    whole 6 --set checkpoint.every=2
    gpipe train run.yaml -q --set checkpoint.every=2
    printf 'x' | dd of=out/checkpoints/step-4/optimizer.safetensors bs=1 seek=9000 conv=notrunc 2>/dev/null
    refused 2 "is damaged: its checksum is another one" train --resume out/checkpoints/step-4 --set train.steps=6
    gpipe train --resume out --set train.steps=6
    ended 0
    says "warning: a checkpoint is passed over"
    says "goes on after step 2 of 6"
    same 6
    gpipe train run.yaml -q --force --set checkpoint.every=2
    for file in out/checkpoints/step-*/state.json; do echo '{' >"$file"; done
    refused 2 "there is no whole checkpoint in out/checkpoints" train --resume out
}

@test "shards, the copy in memory, and waiting give the same bits" {
    whole 5
    gpipe train run.yaml --set checkpoint.every=1 --set checkpoint.shard_size=3kB
    ended 0
    says "snapshot"
    [ -f out/checkpoints/step-4/model.safetensors.index.json ]
    [ -f out/checkpoints/step-4/optimizer.safetensors.index.json ]
    gpipe eval out
    ended 0
    gpipe train --resume out --set train.steps=5 --set checkpoint.background=false --set checkpoint.shard_size=none
    ended 0
    silent_about "snapshot"
    same 5
}

@test "--resume auto never begins again over checkpoints that it cannot use" {
    gpipe train run.yaml -q --set checkpoint.every=1
    sed -i 's/"format_version": 1/"format_version": 2/' out/checkpoints/step-*/state.json
    refused 2 "out/checkpoints has step-4, but none that training can go on from: --force begins again" train run.yaml --resume auto
    says "step-4 is passed over"
    [ "$(ls -d out/checkpoints/step-* | wc -l)" -eq 2 ]
    [ "$(steps_of out)" = "1 2 3 4 " ]
    gpipe train run.yaml --resume auto --force --set train.steps=2
    ended 0
    [ "$(steps_of out)" = "1 2 " ]
    [ -z "$(ls -d out/checkpoints/step-4 2>/dev/null)" ]
    # Imported weights are no checkpoint to go on from, and not to be lost either.
    gpipe export out --out hf
    gpipe import hf --out start
    refused 2 "start/checkpoints has step-0" train start/config.yaml --resume auto --out start --set data.text=corpus.txt
    [ -f start/checkpoints/step-0/model.safetensors ]
    # A folder that cannot be looked into is not empty.
    chmod 300 out/checkpoints
    if ! ls out/checkpoints >/dev/null 2>&1; then
        gpipe train run.yaml --resume auto
        ended 1
        says "checkpoints' could not be read"
    fi
    chmod 700 out/checkpoints
}

@test "a run that was copied without its links is refused before it trains" {
    gpipe train run.yaml -q
    cp -rL out copy
    refused 2 "copy/checkpoints/latest' is no link" train --resume copy --set train.steps=6
    rm -r copy/checkpoints/latest copy/checkpoints/best
    gpipe train --resume copy --set train.steps=6
    ended 0
    [ "$(readlink copy/checkpoints/latest)" = step-6 ]
}

@test "a run killed while it wrote its configuration is none, and begins" {
    mkdir out
    echo half >out/.config.yaml.new
    gpipe train run.yaml --resume auto
    ended 0
    [ ! -e out/.config.yaml.new ]
}

@test "one process trains in a run directory; another is refused at once" {
    gpipe train run.yaml -q
    ended 0
    exec 8<>out/metrics.jsonl
    flock -n 8
    refused 2 "another process is training in this run directory" train --resume out --set train.steps=5
    exec 8>&-
    gpipe train --resume out --set train.steps=5
    ended 0
}

@test "a pipe in the place of the metrics or the log is refused instead of waited for" {
    gpipe train run.yaml -q
    ended 0
    mv out/metrics.jsonl out/log.txt .
    mkfifo out/log.txt
    refused 2 "log.txt is not a regular file" train --resume out --set train.steps=5
    rm out/log.txt
    mkfifo out/metrics.jsonl
    refused 2 "metrics.jsonl' is not a regular file" train --resume out --set train.steps=5
}

@test "a run that another process makes is left alone, configuration and all" {
    gpipe train run.yaml -q
    ended 0
    exec 8<>out/log.txt
    flock -n 8
    cp out/config.yaml before.yaml
    refused 2 "another process is training in this run directory: it holds out/log.txt" train --resume out --set train.steps=5
    refused 2 "another process is training in this run directory: it holds out/log.txt" train run.yaml --force
    cmp out/config.yaml before.yaml
    [ -f out/checkpoints/step-4/state.json ]
    [ "$(steps_of out)" = "1 2 3 4 " ]
    exec 8>&-
    gpipe train --resume out --set train.steps=5
    ended 0
}

@test "a pipe in the place of any file of a run is refused instead of waited for" {
    gpipe train run.yaml -q
    ended 0
    for file in config.yaml tokenizer.json checkpoints/step-4/state.json checkpoints/step-4/model.safetensors; do
        mv "out/$file" kept
        mkfifo "out/$file"
        gpipe train --resume out --set train.steps=5
        ended 2
        says "not a regular file"
        gpipe eval out
        [ "$file" = checkpoints/step-4/state.json ] || ended 2
        gpipe inspect out
        [ "$status" -eq 0 ] || ended 2
        rm "out/$file"
        mv kept "out/$file"
    done
    mkfifo pipe.yaml
    refused 2 "pipe.yaml is not a regular file" train pipe.yaml
    "$GPIPE" plan <(cat run.yaml) >plan.txt 2>&1 || fail "$(cat plan.txt)"
}
