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
    refused 2 "data.masked is 0, but bert with head masked or pretraining learns from nothing else" train bert.yaml --set data.masked=0
    refused 2 "data.masked is \"2\"; accepted: a number from 0 to 1" train bert.yaml --set data.masked=2
    refused 2 "data.masked is for models that see every token; this is gpt2" train run.yaml --set data.masked=0.1
    refused 2 "data.text is for model.head: masked" train bert.yaml --set model.head=hidden
    refused 2 "model.vocabulary is 24, but the tokenizer has 27 tokens with those for the beginning" \
        train bert.yaml --set model.vocabulary=24
    refused 2 "model.context is \"2\"; accepted: an integer from 3" train bert.yaml --set model.context=2
    gpipe train bert.yaml
    refused 2 "does not generate text" sample bert
}

@test "both heads are trained together, on any cut, and go on" {
    make_bert
    gpipe train bert.yaml --set model.head=pretraining --set train.steps=6 --out both
    ended 0
    gpipe train bert.yaml --set model.head=pretraining --set train.steps=6 --set pipeline.partitions=4 --set pipeline.schedule=1f1b --out cut
    ended 0
    gpipe inspect --diff both cut
    ended 0
    gpipe train bert.yaml --set model.head=pretraining --set train.steps=3 --out halves
    gpipe train --resume halves --set train.steps=6 --set pipeline.partitions=3
    ended 0
    gpipe inspect --diff both halves
    ended 0
    gpipe train bert.yaml --set model.head=pretraining --set train.steps=1 --out one
    gpipe inspect --diff both one --json
    grep -A1 '"layers.3.classifier.weight"' <<<"$stdout" >/dev/null || fail "no head for sentences"
    gpipe eval both
    ended 0
    gpipe export both --out hf
    ended 0
    grep -q '"BertForPreTraining"' hf/config.json
    gpipe inspect hf
    says "cls.seq_relationship.weight"
    gpipe import hf --out back
    ended 0
    silent_about "does not use"
    gpipe inspect --diff both back
    ended 0
    refused 2 "model.context is 6; at least 7 is needed" train bert.yaml --set model.head=pretraining --set model.context=6 --out x
    gpipe plan bert.yaml --set model.head=pretraining --set data.text= --set data.random=true --set model.vocabulary=30
    ended 0
    gpipe train bert.yaml --set model.head=pretraining --set data.text= --set data.random=true --set model.vocabulary=30 --set train.steps=1 --out random
    ended 0
}

@test "token files are hidden too, with a tokenizer and without" {
    make_bert
    printf '[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\nnumber\nsat\nthere\n.\n' >vocab.txt
    for i in $(seq 0 9); do printf '%s\n##%s\n' "$i" "$i"; done >>vocab.txt
    gpipe tokenize corpus.txt --tokenizer vocab.txt --out tokens
    ended 0
    gpipe train bert.yaml --set data.text= --set 'data.tokens=tokens*.bin' --set data.tokenizer=vocab.txt --out out
    ended 0
    says "vocabulary 31"
    gpipe eval out
    ended 0
    gpipe train bert.yaml --set data.text= --set 'data.tokens=tokens*.bin' --set data.tokenizer= --set model.head=pretraining --out plain
    ended 0
    says "vocabulary 34"
    gpipe train --resume plain --set train.steps=5
    ended 0
}

# 40 texts of two classes that their first letter tells, a column each.
make_examples() {
    for i in $(seq 1 20); do
        printf 'aa%d\tgood\nzz%d\tbad\n' "$i" "$i"
    done >examples.tsv
    cat >classify.yaml <<'YAML'
model: {name: bert, layers: 1, heads: 2, width: 16, context: 12, head: classify}
data: {examples: examples.tsv, tokenizer: byte, validation: 0.2}
pipeline: {partitions: 2, micro_batches: 2, balance: parameters}
optimizer: {lr: 0.01}
train: {batch: 8, steps: 30, out: classify}
YAML
}

@test "classes of labelled texts are learned" {
    make_examples
    gpipe train classify.yaml
    ended 0
    says "32 examples for training, 8 for validation, classes 2"
    says "accuracy 100.00%"
    grep -q "classes: 2" classify/config.yaml || fail "the number of classes is not recorded"
    grep -q '"bad"' classify/classes.json || fail "the classes are not kept"
    gpipe train classify.yaml --set pipeline.partitions=1 --out other
    ended 0
    gpipe inspect --diff classify other
    ended 0
    gpipe eval classify --json
    ended 0
    says '"accuracy": 1.0'
    says '"examples": 8'
    gpipe predict classify --text "zz99"
    ended 0
    [ "$(head -1 <<<"$stdout" | awk '{print $2}')" = bad ] || fail "another class than bad"
    gpipe predict classify --text "aa" --json
    ended 0
    says '"text": "good"'
    printf '{"text": "aa77", "label": "good"}\n{"text": "zz77", "label": "good"}\n' >other.jsonl
    gpipe eval classify --data other.jsonl
    ended 0
    says "accuracy 50.00%"
    says "over 2 examples"
    printf '{"text": "aa77", "label": "ugly"}\n' >unknown.jsonl
    refused 2 "'unknown.jsonl', line 1: its label 'ugly' is not among the classes: bad, good" eval classify --data unknown.jsonl
}

@test "an encoder with a head of its own is tuned" {
    make_bert
    make_examples
    gpipe train bert.yaml --set data.tokenizer=byte
    ended 0
    gpipe export bert --out hf
    gpipe import hf --head classify --classes 2 --out start
    ended 0
    says "parameters that the files lack start anew: layers.3.weight"
    gpipe train start/config.yaml --set data.examples=examples.tsv --set data.tokenizer=byte --set data.validation=0.2 \
        --set train.steps=2 --set train.batch=4 --out tuned
    ended 0
    gpipe export tuned --out out
    ended 0
    grep -q BertForSequenceClassification out/config.json || fail "another architecture"
    gpipe inspect out
    says "classifier.weight"
}

@test "examples that cannot serve, and models that cannot take them" {
    make_examples
    make_bert
    refused 2 "data.examples=none.tsv: data: 'none.tsv' could not be opened" train classify.yaml --set data.examples=none.tsv
    refused 2 "data.examples needs data.tokenizer" train classify.yaml --set data.tokenizer=
    refused 2 "data.masked is for data.text" train classify.yaml --set model.head=masked
    refused 2 "data.examples is for bert with model.head: classify" train classify.yaml --set model.head=hidden
    refused 2 "data.examples is for bert with model.head: classify" train run.yaml --set data.text= \
        --set data.examples=examples.tsv --set data.tokenizer=byte
    refused 2 "data.examples and data.text are both given" train classify.yaml --set data.text=corpus.txt
    refused 2 "data.label_field is for data.examples, which is not given" train bert.yaml --set data.label_field=x
    refused 2 "model.classes is \"1\"; accepted: an integer from 2" train classify.yaml --set model.classes=1
    printf 'a\t1\nb\t2\nc\t3\n' >three.tsv
    refused 2 "model.classes is 2, but the data has 3 classes" \
        train classify.yaml --set data.examples=three.tsv --set model.classes=2 --set data.validation=0
    refused 2 "model.head next_sentence has two classes, the examples have 3" \
        train classify.yaml --set data.examples=three.tsv --set model.head=next_sentence --set data.validation=0
    gpipe train classify.yaml
    refused 2 "either --inputs FILE" predict classify
    refused 2 "either --inputs FILE" predict classify --text x --inputs y
    refused 2 "--text has 11 tokens: 1 to 10 are accepted" predict classify --text 12345678901
}
