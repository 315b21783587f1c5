# gpipe import, export, predict, and training that starts from given weights.
load helper

trained() {
    gpipe train run.yaml
    ended 0
}

@test "out and in again is the identity, and the model is the same" {
    trained
    gpipe export out --out hf
    ended 0
    says "the weights of out are in hf"
    for key in '"model_type": "gpt2"' '"n_layer": 2' '"n_embd": 16' '"n_positions": 16' '"GPT2LMHeadModel"'; do
        grep -q "$key" hf/config.json || fail "config.json lacks $key"
    done
    gpipe inspect hf/model.safetensors
    ended 0
    says "transformer.h.1.attn.c_attn.weight"
    says "f32[16,48]"
    silent_about "lm_head"
    gpipe import hf --out back
    ended 0
    says "hf (Hugging Face, gpt2) is the run back"
    gpipe inspect out/checkpoints/latest/model.safetensors
    before=$stdout
    gpipe inspect back
    [ "$(grep layers. <<<"$before")" = "$(grep layers. <<<"$stdout")" ] || fail "other weights"
    gpipe gradients run.yaml --out samples.safetensors
    ended 0
    for run in out back; do
        gpipe predict "$run" --inputs samples.safetensors --out "$run.safetensors"
        ended 0
    done
    cmp out.safetensors back.safetensors
    gpipe inspect back.safetensors
    says "f32[4,16,24]"
}

@test "in shards with an index, and in again" {
    trained
    gpipe export out --out hf --shard-size 4kB
    ended 0
    [ -f hf/model-00001-of-00012.safetensors ] || fail "$(ls hf)"
    [ ! -e hf/model.safetensors ]
    grep -q '"weight_map"' hf/model.safetensors.index.json
    gpipe export out --out whole
    ended 0
    [ "$(ls whole)" = "$(printf 'config.json\nmodel.safetensors')" ] || fail "$(ls whole)"
    gpipe inspect --diff hf whole
    ended 0
    gpipe import hf --out back
    ended 0
    gpipe import whole --out again
    cmp back/checkpoints/step-0/model.safetensors again/checkpoints/step-0/model.safetensors
    gpipe export out --out hf --force --shard-size none
    ended 0
    [ "$(ls hf)" = "$(ls whole)" ] || fail "$(ls hf)"
    refused 2 '--shard-size is "0"; accepted: bytes with a unit' export out --out other --shard-size 0
    refused 2 '--shard-size is "much"; accepted: bytes with a unit' export out --out other --shard-size much
    [ ! -e other ] || fail "a folder was left"
}

@test "an export takes the place of another one only when it is told to, and never that of a run" {
    trained
    for name in model.safetensors model.safetensors.index.json config.json; do
        mkdir mine
        echo precious >mine/$name
        refused 2 "mine holds a model already" export out --out mine
        [ "$(cat mine/$name)" = precious ]
        rm -r mine
    done
    for folder in out out/checkpoints/latest; do
        refused 2 "$folder is a run or a checkpoint of gpipe" export out --out $folder --force
    done
    gpipe inspect --verify out
    ended 0
    # What another model left goes with it; what lies beside it stays.
    gpipe export out --out hf
    ended 0
    echo '{}' >hf/tokenizer.json
    echo notes >hf/README.md
    gpipe export out --out hf --force
    ended 0
    [ "$(ls hf)" = "$(printf 'README.md\nconfig.json\nmodel.safetensors')" ] || fail "$(ls hf)"
}

@test "what a killed import or export leaves does not stand in the way of the next" {
    trained
    gpipe export out --out hf
    ended 0
    # Without the configuration, which comes last.
    mkdir -p start/checkpoints/step-0
    echo half >start/checkpoints/step-0/model.safetensors.1234-0.tmp
    echo half >start/tokenizer.json
    refused 2 "start exists and is not empty" import hf --out start
    gpipe import hf --out start --force
    ended 0
    [ "$(ls -A start/checkpoints/step-0)" = model.safetensors ] || fail "$(ls -A start/checkpoints/step-0)"
    mkdir -p mine/checkpoints
    echo precious >mine/file
    refused 2 "mine is not a run of gpipe" import hf --out mine --force
    for file in model.safetensors model-00001-of-00002.safetensors model.safetensors.index.json config.json; do
        echo half >hf/$file.1234-0.tmp
    done
    echo notes >hf/config.json.tmp
    echo notes >hf/model.safetensors.old
    gpipe export out --out hf --force
    ended 0
    [ "$(ls hf)" = "$(printf 'config.json\nconfig.json.tmp\nmodel.safetensors\nmodel.safetensors.old')" ] || fail "$(ls hf)"
}

@test "weights that are NaN have no answer" {
    trained
    size=$(stat -c %s out/checkpoints/latest/model.safetensors)
    cp out/checkpoints/latest/model.safetensors nan.safetensors
    printf '\0\0\300\177' | dd of=nan.safetensors bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
    refused 5 "the model gives NaN for --text: its weights have diverged" predict out --checkpoint nan.safetensors --text "the cat"
    refused 5 "the model gives NaN for --text: its weights have diverged" predict out --checkpoint nan.safetensors --text "the cat" --json
}

@test "an imported run trains on in a place of its own" {
    trained
    gpipe export out --out hf
    gpipe import hf --out back
    grep -q 'out: runs/hf-tuned' back/config.yaml || fail "$(cat back/config.yaml)"
    cp out/tokenizer.json back
    gpipe train back/config.yaml --set data.text=corpus.txt --set data.tokenizer=back/tokenizer.json --set train.steps=1 --set train.batch=4
    ended 0
    [ -f runs/hf-tuned/checkpoints/latest/state.json ]
    gpipe import hf/model.safetensors --out third
    grep -q 'out: runs/hf-tuned' third/config.yaml
    exec 8<>back/log.txt # as a run that trains holds it
    flock -n 8
    refused 2 "another process is training" import hf --out back --force
    [ -f back/checkpoints/step-0/model.safetensors ]
}

@test "an imported run takes part in everything" {
    trained
    gpipe eval out --json
    loss=$(grep '"loss"' <<<"$stdout")
    gpipe export out --out hf
    gpipe import hf --out back
    ended 0
    says "there is no tokenizer in hf"
    refused 2 "tokenizer.json" eval back --data corpus.txt
    cp out/tokenizer.json back
    gpipe eval back --data corpus.txt --split validation --json --set train.batch=4 --set pipeline.micro_batches=2
    ended 0
    [ "$(grep '"loss"' <<<"$stdout")" = "$loss" ] || fail "another loss"
    gpipe sample back --tokens 5
    ended 0
    gpipe plan back/config.yaml
    ended 0
    refused 2 "back exists and is not empty" import hf --out back
    gpipe import hf --out back --force
    ended 0
    [ ! -e back/tokenizer.json ] || fail "the former tokenizer is still there"
}

@test "training starts from given weights" {
    trained
    gpipe eval out --json
    loss=$(grep '"loss"' <<<"$stdout")
    gpipe train run.yaml --set train.init_from=out --set train.steps=1 --set optimizer.lr=1e-30 --out again
    ended 0
    says "the weights of out are the start"
    gpipe eval again --json
    [ "$(grep '"loss"' <<<"$stdout")" = "$loss" ] || fail "another loss"
    grep -q "init_from: .*/out" again/config.yaml || fail "the start is not recorded"
    gpipe train run.yaml --set train.init_from=out/checkpoints/step-4/model.safetensors --out third --set pipeline.partitions=1
    ended 0
    refused 2 "train.init_from=none/x.safetensors: 'none/x.safetensors' could not be opened" train run.yaml --set train.init_from=none/x.safetensors --out fourth
    refused 2 "tensor layers.0.position.weight is f32[16,16], but the model needs f32[8,16]" \
        train run.yaml --set train.init_from=out --set model.context=8 --out fourth
    [ ! -e fourth ] || fail "a run directory was left"
}

@test "other dtypes lose bits and nothing else" {
    trained
    for dtype in bf16 f16; do
        gpipe export out --out "$dtype" --dtype "$dtype"
        ended 0
        gpipe inspect "$dtype/model.safetensors"
        says "$dtype[16,48]"
        gpipe import "$dtype" --out "run-$dtype"
        ended 0
    done
    refused 2 '--dtype is "f8"; accepted: f32|bf16|f16' export out --out other --dtype f8
}

@test "a bert of one's own, out and in" {
    cat >bert.yaml <<'YAML'
model: {name: bert, layers: 1, heads: 2, width: 8, context: 8, vocabulary: 20, head: classify, classes: 3}
YAML
    gpipe plan bert.yaml --json
    ended 0
    says '"parameters": 1227'
}

@test "what cannot be imported or exported" {
    refused 2 "import: --out DIR is missing" import hf
    refused 2 "nothing: there is no such file or folder" import nothing --out x
    mkdir hf
    refused 2 "hf: there is no config.json" import hf --out x
    echo '{"model_type": "llama"}' >hf/config.json
    refused 2 "'hf/config.json': \"model_type\" is \"llama\": gpt2 and bert are accepted" import hf --out x
    echo '{"model_type": "gpt2"}' >hf/config.json
    refused 2 "hf has neither model.safetensors nor model.safetensors.index.json" import hf --out x
    echo x >hf/model.safetensors
    refused 2 "hf/model.safetensors" import hf --out x
    refused 2 "only a bert has heads" import hf --out x --head masked
    printf '\306\327\064\001\003\000\000\000' >llmc.bin
    refused 2 "'llmc.bin' is not a checkpoint of llm.c that can be read: it has 8 bytes" import llmc.bin --out x
    [ ! -e x ] || fail "a run directory was left"
    refused 2 "export: --out DIR is missing" export out
    refused 2 "out is not a run directory" export out --out hf2
    trained
    refused 2 "hf holds a model already" export out --out hf
    gpipe export out --out hf --force
    ended 0
    cat >own.yaml <<'YAML'
model:
  input: {shape: [16]}
  layers: [{embedding: {width: 4}}, {linear: {features: 20}}]
data: {text: corpus.txt}
pipeline: {balance: parameters}
train: {steps: 1, batch: 2, out: own}
YAML
    gpipe train own.yaml --set 'model.layers=[{embedding: {width: 4}}, {linear: {features: 24}}]'
    ended 0
    refused 2 "only gpt2, bert and the ResNets of the zoo have a form" export own --out hf3
    [ ! -e hf3 ] || fail "a folder was left"
}

@test "samples that do not fit the model" {
    trained
    refused 2 "predict: either --inputs FILE" predict out --out y
    refused 2 "predict: --out FILE is missing" predict out --inputs x
    gpipe gradients run.yaml --out samples.safetensors --set model.context=8
    refused 2 "samples.safetensors: tensor inputs is i32[4,8]; accepted: samples of i32[16]" \
        predict out --inputs samples.safetensors --out y
    refused 2 "--inputs takes a safetensors file with a tensor inputs or input_ids: 'corpus.txt'" \
        predict out --inputs corpus.txt --out y
    refused 2 "has no tensor inputs and no input_ids" predict out --inputs out/checkpoints/latest/model.safetensors --out y
    [ ! -e y ] || fail "a file was left"
}
