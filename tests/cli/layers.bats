# Models given as lists of layers.
load helper

make_list() {
    cat >list.yaml <<'YAML'
model:
  input: {shape: [16]}
  layers:
    - text_embedding: {width: 16}
    - repeat: {times: 2, layers: [{residual: {layers: [layer_norm, {attention: {heads: 2}}]}}, {residual: {layers: [{layer_norm: {bias: false}}, {feed_forward: {width: 32, activation: relu}}]}}]}
    - layer_norm:
    - linear: {features: vocabulary, bias: false}
  loss: {name: cross_entropy, label_smoothing: 0.1}
data: {text: corpus.txt}
pipeline: {partitions: 2, micro_batches: 2, balance: parameters}
train: {batch: 4, steps: 3, out: out}
YAML
}

@test "a list with repeat and layers inside layers trains" {
    make_list
    gpipe train list.yaml
    ended 0
    says "validation loss"
    gpipe inspect out
    ended 0
    says "layers.4."
    says "layers.6.weight"
}

@test "its resolved configuration gives the same run" {
    make_list
    gpipe train list.yaml
    ended 0
    gpipe train out/config.yaml --out again --set pipeline.partitions=3
    ended 0
    cmp out/checkpoints/latest/model.safetensors again/checkpoints/latest/model.safetensors
    gpipe eval out
    ended 0
    gpipe sample out --tokens 3
    ended 0
}

@test "unknown layers and options are named with their place" {
    make_list
    sed -i 's/- linear:/- linaer:/' list.yaml
    refused 2 'list.yaml:7:7: there is no layer "linaer"; the nearest one is "linear"' plan list.yaml
    make_list
    sed -i 's/feed_forward: {width/feed_forward: {widht/' list.yaml
    refused 2 'layer feed_forward has no option "widht"; the nearest one is "width"' plan list.yaml
    make_list
    sed -i 's/times: 2/time: 2/' list.yaml
    refused 2 'repeat has no option "time"; accepted: times, layers' plan list.yaml
}

@test "wrong values in a list" {
    make_list
    sed -i 's/times: 2/times: 0/' list.yaml
    refused 2 'times of repeat is "0"; accepted: an integer, 1 or more' plan list.yaml
    make_list
    sed -i 's/heads: 2/heads: two/' list.yaml
    refused 2 'option "heads" of layer attention is a text, but an integer is accepted' plan list.yaml
    make_list
    sed -i 's/features: vocabulary/features: [1, 2]/' list.yaml
    refused 2 "list.yaml:7:26: features of layer linear is not a plain value" plan list.yaml
    make_list
    sed -i 's/- layer_norm:$/- {layer_norm: , relu: }/' list.yaml
    refused 2 "found a mapping with another number of keys than one" plan list.yaml
    make_list
    sed -i 's/^    - layer_norm:/    - layer_norm: 5/' list.yaml
    refused 2 'layer_norm is "5"; accepted: its options' plan list.yaml
    make_list
    sed -i 's/residual: {layers: \[layer_norm, {attention: {heads: 2}}\]}/residual: /' list.yaml
    refused 2 "layer residual needs at least one layer inside" plan list.yaml
}

@test "shapes that do not fit name layer and shapes" {
    make_list
    sed -i 's/heads: 2/heads: 3/' list.yaml
    refused 2 "list.yaml:4:5:" plan list.yaml
    make_list
    sed -i 's/features: vocabulary/features: 5/' list.yaml
    gpipe train list.yaml
    ended 2
}

@test "targets and samples must be what the data gives" {
    make_list
    sed -i 's/^  loss: .*/  loss: {name: squared_error}/' list.yaml
    refused 2 "the loss wants targets of f32[16," train list.yaml
    make_list
    sed -i 's/- layer_norm:$/- mean: {axis: 1}/' list.yaml
    refused 2 "the loss wants targets of i32[] a sample, but the data gives i32[16]" train list.yaml
    make_list
    sed -i 's/shape: \[16\]/shape: [16], dtype: f32/' list.yaml
    refused 2 "model.input is not a row of tokens" train list.yaml
}

@test "keys of the zoo do not go with a list" {
    make_list
    refused 2 "model.width is a key of models of the zoo; this one has a list of layers" plan list.yaml --set model.width=5
    refused 2 "model.input is a key of models given as layers; this one has a name" plan run.yaml --set model.input.shape=[3]
}

@test "a list may not grow without bound" {
    make_list
    sed -i 's/times: 2/times: 100000000/' list.yaml
    refused 2 "the model has more than 100000 layers" plan list.yaml
}

@test "a model for numbers can be planned without data" {
    cat >numbers.yaml <<'YAML'
model:
  input: {shape: [8, 4], dtype: f32}
  layers: [{reshape: {shape: [32]}}, {linear: {features: 16}}, tanh, {linear: {features: 2}}]
  loss: {name: squared_error}
pipeline: {partitions: 2, balance: flops}
YAML
    gpipe plan numbers.yaml --json
    ended 0
    says '"parameters": 562'
}
