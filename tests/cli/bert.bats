# BERT: masked language modelling, and its weights out and in.
load helper

make_bert() {
    cat >bert.yaml <<'YAML'
model: {name: bert, layers: 2, heads: 2, width: 16, context: 16, dropout: 0.1}
data: {text: corpus.txt}
pipeline: {partitions: 2, micro_batches: 2, balance: parameters}
train: {batch: 4, steps: 4, out: bert}
YAML
}

@test "training, evaluation, the same bits for other partitions" {
    make_bert
    gpipe train bert.yaml
    ended 0
    grep -q "masked: 0.15" bert/config.yaml || fail "the share of masked tokens is not recorded"
    grep -q "vocabulary: 27" bert/config.yaml || fail "24 characters and three special tokens"
    gpipe train bert.yaml --set pipeline.partitions=1 --set pipeline.schedule=1f1b --out other
    ended 0
    cmp bert/checkpoints/latest/model.safetensors other/checkpoints/latest/model.safetensors
    gpipe eval bert --json
    ended 0
    loss=$(grep '"loss"' <<<"$stdout")
    gpipe export bert --out hf
    ended 0
    grep -q '"BertForMaskedLM"' hf/config.json || fail "another architecture"
    gpipe inspect hf/model.safetensors
    says "bert.encoder.layer.1.attention.self.query.weight"
    says "cls.predictions.transform.LayerNorm.weight"
    silent_about "decoder.weight"
    gpipe import hf --out back
    ended 0
    cp bert/tokenizer.json back
    gpipe eval back --data corpus.txt --split validation --json --set train.batch=4 --set pipeline.micro_batches=2
    ended 0
    [ "$(grep '"loss"' <<<"$stdout")" = "$loss" ] || fail "another loss than $loss"
}

@test "bf16, sequential windows, bytes" {
    make_bert
    gpipe train bert.yaml --set device.precision=bf16 --set data.sampling=sequential --set data.tokenizer=byte --set train.steps=2
    ended 0
    grep -q "vocabulary: 259" bert/config.yaml || fail "256 bytes and three special tokens"
}

@test "a list of layers learns from masked text too" {
    cat >own.yaml <<'YAML'
model:
  input: {shape: [3, 16]}
  layers:
    - bert_embedding: {width: 8}
    - attention: {heads: 2, causal: false, mask: mask}
    - linear: {features: vocabulary}
data: {text: corpus.txt, masked: 0.3}
pipeline: {balance: parameters}
train: {batch: 4, steps: 2, out: own}
YAML
    gpipe train own.yaml
    ended 0
    refused 2 "model.input is not a row of tokens" train own.yaml --set data.masked=0 --out other
    refused 2 "model.input is not tokens, types and mask" train own.yaml --set model.input.shape=[16] --out other
}

@test "what does not fit together" {
    make_bert
    refused 2 "data.masked is 0, but bert with head masked learns from nothing else" train bert.yaml --set data.masked=0
    refused 2 "data.masked is \"2\"; accepted: a number from 0 to 1" train bert.yaml --set data.masked=2
    refused 2 "data.masked is for models that see every token; this is gpt2" train run.yaml --set data.masked=0.1
    refused 2 "data.text is for model.head: masked" train bert.yaml --set model.head=hidden
    refused 2 "model.vocabulary is 24, but the tokenizer has 27 tokens with those for the beginning" \
        train bert.yaml --set model.vocabulary=24
    refused 2 "model.context is \"2\"; accepted: an integer from 3" train bert.yaml --set model.context=2
    gpipe train bert.yaml
    refused 2 "does not generate text" sample bert
}
