# gpipe train: parts of other weights, frozen parts, learning rates of parts, averages of the weights, patience.
load helper

@test "a run starts from parts of another, and says what it did" {
    gpipe train run.yaml --set optimizer.name=rmsprop --set optimizer.average=0.9
    ended 0
    [ -f out/checkpoints/latest/average.safetensors ] || fail "no averages are kept"
    gpipe train run.yaml --out again --set train.init_from=out --set 'train.replace=[layers.1]' \
        --set 'train.freeze=[layers.0]' --set 'optimizer.lr_factors=["*norm*=0.5"]' --set optimizer.layer_decay=0.9
    ended 0
    for line in 'replace: \[layers.1\]' 'freeze: \[layers.0\]' 'lr_factors: \["\*norm\*=0.5"\]' 'layer_decay: 0.9'; do
        grep -q "$line" again/config.yaml || fail "config.yaml lacks $line"
    done
    gpipe train again/config.yaml --out third
    ended 0
}

@test "an empty list takes back what the file has" {
    gpipe train run.yaml --set 'optimizer.lr_factors=["layers.0=0.1"]'
    ended 0
    grep -q "lr_factors" out/config.yaml || fail "config.yaml has no factors"
    gpipe train out/config.yaml --out again --set 'optimizer.lr_factors=[]' --set 'train.freeze=[]'
    ended 0
    ! grep -qE "lr_factors|freeze" again/config.yaml || fail "config.yaml has factors"
}

@test "the evaluation at the end is that of gpipe eval, with and without averages" {
    for average in 0 0.9; do
        gpipe train run.yaml --set optimizer.average=$average --out "out$average" --json
        ended 0
        at_end=$(grep -o '"validation_loss": [0-9.]*' <<<"$stdout" | cut -d' ' -f2)
        gpipe eval "out$average" --json
        ended 0
        says "\"loss\": $at_end"
    done
}

@test "patterns that mean nothing are refused before a step is made" {
    refused 2 'no parameter matches "heads"; the first is called layers.0.token.weight' train run.yaml --set 'train.freeze=[heads]'
    refused 2 '"head" is layers.4, which shares layers.0.token.weight' train run.yaml --set 'train.freeze=[head]'
    refused 2 'no parameter matches "*.scale"' train run.yaml --set 'optimizer.lr_factors=["*.scale=2"]'
    refused 2 'optimizer.lr_factors has "layers.0"; accepted: pattern=factor' train run.yaml --set 'optimizer.lr_factors=[layers.0]'
    refused 2 'optimizer.lr_factors has "layers.0=-1"' train run.yaml --set 'optimizer.lr_factors=[layers.0=-1]'
    refused 2 'train.replace needs train.init_from' train run.yaml --set 'train.replace=[layers.0]'
    refused 2 'train.freeze is a mapping; accepted: a list of texts' train run.yaml --set 'train.freeze={a: 1}'
    refused 2 'optimizer.average is "1"; accepted: a number from 0 and below 1' train run.yaml --set optimizer.average=1
    [ ! -e out ] || fail "a run directory was left"
}

@test "patience ends a run early, with status 0" {
    gpipe train run.yaml --set optimizer.name=sgd --set optimizer.lr=1e-30 --set train.steps=50 --set train.eval_every=2 --set train.patience=3
    ended 0
    says "no better validation loss than at step 2: the run ends early"
    [ "$(wc -l <out/metrics.jsonl)" -eq 8 ] || fail "another number of steps"
}
