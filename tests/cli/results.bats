# eval and sample: a run's weights at work.
load helper

train() {
    gpipe train run.yaml --set train.steps=30 --set optimizer.lr=1e-2 "$@"
    ended 0
}

loss_of() {
    sed -n 's/.*"loss": \([0-9.]*\).*/\1/p' stdout.txt
}

@test "eval gives the last validation loss, whatever the partitions" {
    train
    local trained
    trained=$(sed -n 's/.*"val_loss":\([0-9.]*\).*/\1/p' out/metrics.jsonl | tail -1)
    gpipe eval out --json
    ended 0
    [ "$(loss_of)" = "$trained" ] || fail "$(loss_of) instead of $trained"
    says '"bits_per_character"'
    says '"perplexity"'
    gpipe eval out --json --set pipeline.partitions=5 --set pipeline.micro_batches=1 --set train.batch=3
    ended 0
    [[ $(loss_of) == "${trained:0:6}"* ]] || fail "$(loss_of) instead of $trained"
}

@test "eval of the training split, of another text, from another folder" {
    train
    gpipe eval out --split train
    ended 0
    [[ $stdout == "train loss "* ]] || fail "no loss"
    head -c 300 corpus.txt >other.txt
    gpipe eval out --data other.txt
    ended 0
    says "over 299 tokens"
    mkdir elsewhere
    cd elsewhere
    gpipe eval ../out
    ended 0
    says "bits per character"
}

@test "eval with a chosen checkpoint" {
    train --set train.eval_every=10 --set checkpoint.every=10
    gpipe eval out --checkpoint best
    ended 0
    gpipe eval out --checkpoint step-20
    ended 0
    gpipe eval out --checkpoint out/checkpoints/step-30/model.safetensors
    ended 0
    refused 2 "there are no weights at out/checkpoints/step-7;" eval out --checkpoint step-7
}

@test "a text with characters that the run does not know" {
    train
    printf 'the cat QUIT there.\n%.0s' $(seq 50) >other.txt
    refused 2 "other.txt" eval out --data other.txt
    says "--data other.txt"
    says "(U+00"
    refused 2 "--prompt" sample out --prompt "the Q"
    says "Q"
}

@test "what is no run directory, or a broken one" {
    refused 2 "none is not a run directory" eval none
    refused 2 "run.yaml is not a run directory" eval run.yaml
    train
    cp -r out broken
    echo '{' >broken/tokenizer.json
    refused 2 "broken/tokenizer.json" eval broken
    cp out/tokenizer.json broken
    truncate -s 1000 broken/checkpoints/latest/model.safetensors
    refused 2 "model.safetensors" sample broken
    refused 2 "tensor layers.0.token.weight is" eval out --set model.vocabulary=64
    refused 2 "has no tensor layers.3" eval out --set model.layers=3
}

@test "a split that is not there" {
    gpipe train run.yaml --set data.validation=0
    ended 0
    refused 2 "there is no validation split: data.validation is 0" eval out
}

@test "sample writes as many tokens, the same for the same seed" {
    train
    gpipe sample out --prompt "the" --tokens 40
    ended 0
    [ "${#stdout}" -le 43 ]
    [[ $stdout == the* ]] || fail "no prompt"
    cp stdout.txt first.txt
    [ "$(wc -c <first.txt)" -eq 44 ]
    gpipe sample out --prompt "the" --tokens 40 --set pipeline.partitions=1
    cmp stdout.txt first.txt
    gpipe sample out --prompt "the" --tokens 40 --seed 7
    ! cmp -s stdout.txt first.txt
    gpipe sample out --tokens 0
    ended 0
    [ "$(wc -c <stdout.txt)" -eq 1 ]
}

@test "the likeliest tokens: temperature 0, top-k 1 and a small top-p agree" {
    train
    gpipe sample out --prompt "the" --tokens 20 --temperature 0
    ended 0
    cp stdout.txt first.txt
    gpipe sample out --prompt "the" --tokens 20 --top-k 1
    cmp stdout.txt first.txt
    gpipe sample out --prompt "the" --tokens 20 --top-p 0.000001
    cmp stdout.txt first.txt
}

@test "a prompt longer than the window, an empty one, bytes" {
    train
    gpipe sample out --prompt "the cat number 001 sat there. the cat number 002 sat" --tokens 5
    ended 0
    refused 2 "--prompt is empty" sample out --prompt ""
    train --out bytes --set data.tokenizer=byte
    gpipe sample bytes --prompt "é" --tokens 5
    ended 0
    gpipe eval bytes
    says "bits per byte"
}

@test "text without a line end can be sampled without a prompt" {
    printf 'ab%.0s' $(seq 300) >corpus.txt
    gpipe train run.yaml -q
    ended 0
    gpipe sample out -n 5
    ended 0
    [ ${#stdout} -eq 5 ] || fail "not five characters"
}

@test "weights that have diverged are said to have" {
    gpipe train run.yaml -q
    ended 0
    # The same header before nothing but NaN (all bits set).
    file=out/checkpoints/step-4/model.safetensors
    header=$((8 + $(od -An -tu8 -N8 "$file")))
    head -c "$header" "$file" >nan.safetensors
    head -c $(($(stat -c %s "$file") - header)) /dev/zero | tr '\0' '\377' >>nan.safetensors
    refused 5 "the loss is NaN" eval out --checkpoint nan.safetensors
    refused 5 "the loss is NaN" eval out --json --checkpoint nan.safetensors
    gpipe sample out --checkpoint nan.safetensors -n 5
    ended 5
    says "the model gives NaN"
}

@test "a confusion is of classifiers" {
    gpipe train run.yaml
    refused 2 "--confusion is for classifiers" eval out --confusion
}
