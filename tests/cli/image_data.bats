# Images as data: training and evaluating on folders and archives, and every kind of bad input.
load helper

setup() {
    cd "$BATS_TEST_TMPDIR"
    "$MAKE_IMAGES" images 3 8 10
    cat >run.yaml <<'YAML'
model:
  layers:
    - conv2d: {channels: 8, kernel: 3, padding: same}
    - relu:
    - global_average_pool:
    - linear: {features: classes}
  input: {shape: [8, 8, 3], dtype: f32}
data:
  images: images
  validation: 0.25
pipeline: {partitions: 2, micro_batches: 2, balance: parameters}
train: {batch: 6, steps: 6, out: out}
YAML
}

weights=checkpoints/latest/model.safetensors

@test "a folder of classes: a run, its class list, its evaluation" {
    gpipe train run.yaml
    ended 0
    says "data: images, 18 images for training, 6 for validation, classes 3"
    says "images/s"
    grep -q '"c0"' out/classes.json
    [ ! -e out/tokenizer.json ]
    grep -q images_per_second out/metrics.jsonl
    grep -q data_seconds out/metrics.jsonl
    ! grep -q tokens out/metrics.jsonl || fail "tokens of images"
    gpipe eval out --json
    ended 0
    says '"images": 6'
    plain=$output
    gpipe eval out --json --set data.shift=1
    ended 0
    says '"images": 6'
    [ "$output" != "$plain" ] || fail "moved images are not judged"
    gpipe eval out --verbose --set data.shift=1
    ended 0
    says "evaluation 0%"
    says "evaluation 67%" # two of three views
    gpipe train --resume out --set train.steps=8 --set data.shift=1 --set data.mirror=true
    ended 0
    says "changed: data.mirror false -> true, data.shift 0 -> 1, train.steps 6 -> 8"
    gpipe eval out --split train --confusion
    ended 0
    says "0 c0"
    total=$(tail -3 <<<"$stdout" | awk '{sum += $3 + $4 + $5} END {print sum}')
    [ "$total" -eq 18 ] || fail "the confusion counts $total"
    says "over 18 images"
    gpipe eval out --json --confusion
    ended 0
    says '"confusion": ['
    says '"c2"'
    gpipe eval out --data images
    ended 0
    says "over 24 images"
}

@test "the first five are told of when there are more than five classes" {
    quick=(--set train.steps=1 --set pipeline.partitions=1)
    gpipe train run.yaml "${quick[@]}"
    says "accuracy"
    [[ "$stdout$stderr" != *five* ]] || fail "the first five of three classes"
    gpipe eval out
    [[ "$stdout" == *"accuracy"* && "$stdout" != *five* ]] || fail "the first five of three classes"
    gpipe eval out --json
    [[ "$stdout" == *'"accuracy"'* && "$stdout" != *top5* ]] || fail "the first five of three classes"
    "$MAKE_IMAGES" six 6 2 10
    gpipe train run.yaml "${quick[@]}" --set data.images=six --out more
    says "among the first five"
    gpipe eval more
    says "among the first five"
    gpipe eval more --json
    says '"accuracy_top5"'
    grep -q val_top5 more/metrics.jsonl
}

@test "the same bits for any threads, partitions and prefetching" {
    for way in threads=1 threads=3; do
        gpipe train run.yaml -q --out "$way" --set "data.$way" --set data.augment.crop=resized --set data.augment.flip=true \
            --set data.augment.operations=2 --set data.augment.mixup=0.3 --set data.augment.cutout=2
        ended 0
    done
    gpipe train run.yaml -q --out one --set pipeline.partitions=1 --set data.augment.crop=resized --set data.augment.flip=true \
        --set data.augment.operations=2 --set data.augment.mixup=0.3 --set data.augment.cutout=2
    ended 0
    cmp "threads=1/$weights" "threads=3/$weights"
    cmp "threads=1/$weights" "one/$weights"
    gpipe eval one
    ended 0
}

@test "archives, and images of validation of their own" {
    "$MAKE_IMAGES" train.tar 3 8 10
    "$MAKE_IMAGES" val.tar 3 2 10
    gpipe train run.yaml --set data.images=train.tar --set data.validation=val.tar
    ended 0
    says "24 images for training, 6 for validation"
    rm train.tar # evaluating on the others needs no images of training
    gpipe eval out
    ended 0
    says "over 6 images"
    refused 2 "there is nothing of that name" eval out --split train
}

@test "plan and the number of classes" {
    gpipe plan run.yaml
    ended 0
    gpipe plan run.yaml --set model.input.classes=5
    ended 0
    refused 2 "model.input.classes is 2, but the data has 3 classes" train run.yaml --set model.input.classes=2
    gpipe train run.yaml --set model.input.classes=7
    ended 0
}

@test "a model of the zoo takes the classes of the data" {
    sed -i '/^model:/,/^data:/{/^data:/!d}' run.yaml
    sed -i '1i model: {name: mlp, layers: 1, width: 8, image: [8, 8, 3]}' run.yaml
    gpipe train run.yaml
    ended 0
    grep -q "classes: 3" out/config.yaml
    gpipe eval out
    ended 0
}

@test "corrupt images: named and fatal, or named, counted and skipped" {
    : >images/c1/001.png
    echo "a text" >images/c2/002.jpg
    head -c 60 images/c0/003.png >cut && mv cut images/c0/003.png
    refused 2 "c2/002.jpg': the file is neither a JPEG nor a PNG" train run.yaml --set data.validation=0 --set data.sampling=random
    rm -r out
    gpipe train run.yaml --set data.corrupt=skip --set data.validation=0 --set train.steps=12
    ended 0
    says "a corrupt image is skipped: '"
    says "images/c2/002.jpg': the file is neither a JPEG nor a PNG"
    says "images/c0/003.png': the PNG is damaged"
    says "3 corrupt images skipped"
    gpipe eval out --split train
    ended 0
    says "over 21 images (3 more are corrupt)"
}

@test "bad sources are refused with a sentence" {
    mkdir empty
    refused 2 "has no images" train run.yaml --set data.images=empty
    mkdir -p one && cp -r images/c0 one/
    refused 2 "images of one class only, 'c0'" train run.yaml --set data.images=one
    refused 2 "there is nothing of that name" train run.yaml --set data.images=missing
    mkdir -p notes/c
    echo x >notes/c/a.txt
    refused 2 "neither .jpg, .jpeg nor .png" train run.yaml --set data.images=notes
    cp run.yaml images.csv
    refused 2 "it is not known what kind of images" train run.yaml --set data.images=images.csv
    tar cPf absolute.tar "$PWD/images/c0"
    refused 2 "names a member by an absolute path" train run.yaml --set data.images=absolute.tar
    (cd empty && tar cPf ../dots.tar ../images/c0)
    refused 2 "leaves its folder by \"..\"" train run.yaml --set data.images=dots.tar
    head -c 3000 absolute.tar >cut.tar
    refused 2 "cut.tar" train run.yaml --set data.images=cut.tar
}


@test "classes that differ between training and evaluation" {
    gpipe train run.yaml
    ended 0
    "$MAKE_IMAGES" more 4 2 10
    refused 2 "1 class that is not among the 3 known: 'c3'" eval out --data more
    refused 2 "1 class that is not among the 3 known: 'c3'" train run.yaml --set data.validation=more --out other
    "$MAKE_IMAGES" fewer 2 2 10
    gpipe eval out --data fewer
    ended 0
    says "over 4 images"
    gpipe train run.yaml --set data.validation=fewer --out other
    ended 0
    says "have none of 1 of the 3 classes, for instance 'c2'"
}

@test "sizes: a pixel, smaller than the sample, over the limit" {
    "$MAKE_IMAGES" tiny 2 3 1
    gpipe train run.yaml --set data.images=tiny --set data.validation=0 --set data.augment.crop=resized
    ended 0
    refused 2 "at most 50 are accepted" train run.yaml --set data.most_pixels=50 --out other
}

@test "keys that do not go together" {
    refused 2 "data.images and data.text are both given" train run.yaml --set data.text=x
    refused 2 "a sample of the model is i32[8,8,3]" train run.yaml --set model.input.dtype=i32
    refused 2 "a sample of the model is f32[8,8,2]" train run.yaml --set 'model.input.shape=[8, 8, 2]'
    refused 2 "accepted: one of centre, pad, resized" train run.yaml --set data.augment.crop=middle
    refused 2 "data.mean has 2 numbers" train run.yaml --set 'data.mean=[0.5, 0.5]'
    refused 2 "data.validation is \"1\"; accepted: a path, or a number" train run.yaml --set data.validation=1
    refused 2 "shift is 8: 0 to 7 (less than the sample's shorter side) is accepted" train run.yaml --set data.shift=8
    refused 2 'data.shift is "-1"' train run.yaml --set data.shift=-1
    gpipe train run.yaml --set data.mean=0.5 --set data.std=0.25
    ended 0
    sed '/^ *mean:/d; /^ *std:/d' run.yaml >bare.yaml
    refused 2 "data.mean is given without data.std" train bare.yaml --set data.mean=0.5
    refused 2 "data.std is given without data.mean" train bare.yaml --set data.std=0.5
    refused 2 "alternate says how to flip" train run.yaml --set data.augment.alternate=true
    printf 'model: {name: gpt2, layers: 1, heads: 1, width: 4, context: 4}\ndata: {text: run.yaml, augment: {flip: true}}\n' >text.yaml
    refused 2 "data.augment is for data.images" train text.yaml
    printf 'model: {name: gpt2, layers: 1, heads: 1, width: 4, context: 4}\ndata: {text: run.yaml, validation: other.txt}\n' >text.yaml
    refused 2 "data.validation is a path, which only data.images and data.examples take" train text.yaml
}

# Its convolutions go in chunks of samples; fewer samples than planned need no more memory.
@test "the last batch of an evaluation has room in what was planned" {
    "$MAKE_IMAGES" odd 5 25 16
    cat >odd.yaml <<'YAML'
model:
  layers:
    - conv2d: {channels: 32, kernel: 3, padding: same}
    - conv2d: {channels: 32, kernel: 3, padding: same}
    - global_average_pool:
    - linear: {features: 5}
  input: {shape: [16, 16, 3], dtype: f32}
data: {images: odd, validation: odd}
pipeline: {partitions: 1, micro_batches: 1, balance: parameters, recompute: never}
train: {steps: 1, out: odd-run}
YAML
    for batch in 128 64; do # 125 images in one, in two
        for dtype in f32 bf16; do
            gpipe train odd.yaml --force --set train.batch=$batch --set device.precision=$dtype
            ended 0
            sizes=$(grep -A 1 "planned *measured" <<<"$output" | awk 'NR == 2 { print $4 $5 == $6 $7 ? "equal" : "more" }')
            [ "$sizes" = equal ] || fail "batch $batch, $dtype: $output"
        done
    done
}

# Planned as written; then a step each, smaller and faster.
@test "the examples run" {
    "$MAKE_IMAGES" ten 10 2 32
    for example in cifar10-resnet cifar10-fast cifar10-amoebanet-d imagefolder transfer; do
        gpipe plan "$EXAMPLES/$example.yaml" --set data.images=ten --set data.validation=ten --set pipeline.balance=parameters
        ended 0
    done
    gpipe plan "$BENCH_SCRIPTS/transfer.yaml" --set data.images=ten --set data.validation=ten --set pipeline.balance=parameters
    ended 0
    short="-q --set train.steps=1 --set train.batch=4 --set train.eval_every=0 --set pipeline.balance=parameters"
    for example in cifar10-resnet cifar10-fast; do
        gpipe train "$EXAMPLES/$example.yaml" $short --set data.images=ten --set data.validation=ten --out $example
        ended 0
    done
    gpipe train "$EXAMPLES/cifar10-amoebanet-d.yaml" $short --set data.images=ten --set data.validation=ten \
        --set model.filters=16 --out amoebanet
    ended 0
    gpipe train "$EXAMPLES/imagefolder.yaml" $short --set data.images=ten --set data.validation=ten --set data.resize=36 \
        --set 'model.image=[32, 32, 3]' --out folder
    ended 0
    gpipe train "$EXAMPLES/transfer.yaml" $short --set data.images=images --set data.validation=images \
        --set train.init_from=cifar10-resnet --set 'model.image=[8, 8, 3]' --out transfer
    ended 0
}
