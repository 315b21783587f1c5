# Models of images: by name and as lists of layers, on random data.
load helper

# What the table of parameters says, without a byte of the model allocated.
counted() {
    gpipe plan images.yaml --set "model={$1}" --json
    ended 0
    says "\"parameters\": $2,"
}

make_images() {
    cat >images.yaml <<'YAML'
model: {name: resnet_cifar, depth: 8, width: 4}
data: {random: true}
pipeline: {partitions: 2, micro_batches: 2, balance: parameters}
train: {batch: 5, steps: 2, out: out}

YAML
}

@test "parameters of the zoo are those that are published" {
    make_images
    counted 'name: amoebanet_d, filters: 208' 81137697
    counted 'name: amoebanet_d, stem: torchgpipe, layers: 36, filters: 544' 1055832376
    counted 'name: amoebanet_b, filters: 512' 557298440
    counted 'name: resnet18' 11689512
    counted 'name: resnet34' 21797672
    counted 'name: resnet50' 25557032
    counted 'name: resnet101' 44549160
    counted 'name: resnet152' 60192808
    counted 'name: senet154' 115088984
    counted 'name: se_resnet50' 28088024
    counted 'name: googlenet' 6624904
    counted 'name: vgg16' 138357544
    counted 'name: resnet_cifar' 269722
    counted 'name: mlp' 269322
    counted 'name: unet, depth: 6, channels: 72' 362223072
}

@test "a model of the zoo trains on random data" {
    make_images
    gpipe train images.yaml --set model.image=8
    ended 0
    says "data: random"
    gpipe train out/config.yaml --out again --set pipeline.partitions=3
    ended 0
    cmp out/checkpoints/latest/model.safetensors again/checkpoints/latest/model.safetensors
    refused 2 "random data, which has nothing to evaluate" eval out
}

@test "images of another height, width and number of channels" {
    make_images
    gpipe train images.yaml --set 'model.image=[8, 12, 1]' --set model.classes=3 --set model.loss.label_smoothing=0.1
    ended 0
    says "the run is in out"
}

# The list of the design, on images of 8x8 to be quick.
@test "a convolutional network as a list of layers" {
    cat >list.yaml <<'YAML'
model:                                   # any sequential network
  input: {shape: [8, 8, 3], dtype: f32}
  layers:
    - conv2d: {channels: 64, kernel: 3, padding: same}
    - batch_norm:
    - relu:
    - repeat: {times: 4, layers: [ {residual: {layers: [ {conv2d: {channels: 64, kernel: 3, padding: same}}, {batch_norm: }, {relu: } ]}} ]}
    - global_average_pool:
    - linear: {features: 10}
  loss: {name: cross_entropy}
data: {random: true}
pipeline: {partitions: 3, micro_batches: 2, balance: flops}
train: {batch: 3, steps: 1, out: out}

YAML
    gpipe train list.yaml
    ended 0
    gpipe inspect out
    ended 0
    says "layers.0.weight"
    says "layers.3.conv2d.weight"
    says "layers.8.bias"
}

@test "every layer of images" {
    cat >list.yaml <<'YAML'
model:
  input: {shape: [8, 8, 3], dtype: f32}
  layers:
    - conv2d: {channels: 4, kernel: [1, 3], stride: [1, 2], padding: [0, 1], bias: false}
    - batch_norm: {epsilon: 1e-3, decay: 0.99, relu: true}
    - keep: {name: early}
    - conv2d: {channels: 4, kernel: 3, groups: 4, dilation: 2, padding: same}
    - squeeze_excitation: {reduction: 2}
    - max_pool: {kernel: 3, stride: 1, padding: same}
    - average_pool: {kernel: [2, 1], ceil: true}
    - upsample: {factor: [2, 1]}
    - drop_path: {p: 0.2, scheduled: true}
    - concatenate_kept: {name: early}
    - factorised_reduction: {channels: 6}
    - flatten
    - linear: {features: 3}
data: {random: true}
pipeline: {partitions: 4, micro_batches: 2, balance: parameters}
train: {batch: 4, steps: 2, out: out}

YAML
    gpipe train list.yaml
    ended 0
    gpipe plan list.yaml --set 'model.layers=[{conv2d: {channels: 4, kernel: [1, 2, 3]}}]'
    ended 2
    says 'option "kernel" of layer conv2d is "1, 2, 3", but 1 to 2 integers of 1 or more are accepted'
}

@test "what a model of images refuses" {
    make_images
    refused 2 'model.depth is "0"; accepted: an integer from 8' plan images.yaml --set model.depth=0
    refused 2 'depth is 21, but 6n + 2 is accepted' plan images.yaml --set model.depth=21
    refused 2 'model.heads is a key of gpt2, bert' plan images.yaml --set model.heads=2
    refused 2 'unknown key model.dept; the nearest known one is model.depth' plan images.yaml --set model.dept=8
    refused 2 'model.name is "resnet51"; accepted: one of gpt2' plan images.yaml --set model.name=resnet51
    refused 2 'data.text gives tokens, but the model takes images' train images.yaml --set 'data={text: corpus.txt}'
    refused 2 'filters is 36, but multiples of 8' plan images.yaml --set 'model={name: amoebanet_d, filters: 36}'
    refused 2 '5 levels halve an image of 16x16 to nothing' plan images.yaml --set 'model={name: unet, image: 16}'
    "$MAKE_IMAGES" ten 10 2 32
    refused 2 'the loss wants targets of i32[32,32] a sample, but the data gives i32[]' train images.yaml --set 'model={name: unet, image: 32, levels: 2, depth: 1, channels: 4}' \
        --set 'data={images: ten}' --set pipeline.balance=parameters
    refused 2 'model vgg16: layer' plan images.yaml --set 'model={name: vgg16, image: 8}'
    refused 2 'integers of 1 or more' plan images.yaml --set 'model.image=[1, 2, 3, 4]'
}
