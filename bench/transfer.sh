#!/bin/sh
# What pre-training is worth: a network learns seven classes of CIFAR-10 and is fine-tuned on the other three with 50 images
# a class, over five seeds, beside the same network that starts anew; for two widths of the network.
#   bench/transfer.sh FOLDER [GPIPE [--set KEY=VALUE]...]
# FOLDER holds train.tar and test.tar: a folder for each class. Settings go to every training, for instance
# --set pipeline.replicas=1 on one core. About an hour on one core.
# TRANSFER_EPOCHS (8) of the pre-training, TRANSFER_STEPS (300) of each fine-tuning, TRANSFER_SEEDS ("1 2 3 4 5").
# Runs are kept in TRANSFER_OUT (a temporary folder); those that are there already are not repeated.
set -eu
case ${1-} in
--help) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" && exit 0 ;;
"" | -*) sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
case ${3-} in "" | --set | --set=*) ;; *) echo "transfer.sh: $3 is not known" >&2 && exit 2 ;; esac
case ${2-} in -*) echo "transfer.sh: before $2 comes the program, for instance build/release/cli/gpipe" >&2 && exit 2 ;; esac
for number in "${TRANSFER_EPOCHS:-8}" "${TRANSFER_STEPS:-300}"; do
    case $number in *[!0-9]* | 0*) echo "transfer.sh: '$number' is no number from 1 on" >&2 && exit 2 ;; esac
done
for tar in train.tar test.tar; do
    [ -e "$1/$tar" ] || { echo "transfer.sh: there is no $1/$tar" >&2; exit 2; }
done
folder=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
gpipe=$(realpath "${2:-$here/build/release/cli/gpipe}")
[ -x "$gpipe" ] || { echo "transfer.sh: there is no program $gpipe" >&2; exit 2; }
out=${TRANSFER_OUT:-$(mktemp -d)}
if [ $# -gt 2 ]; then shift 2; else shift $#; fi
epochs=${TRANSFER_EPOCHS:-8}
steps=${TRANSFER_STEPS:-300}
others="horse ship truck"
mkdir -p "$out"
cd "$out"

# The classes, as folders: seven with all images, three with the first 50 of each; all test images of both.
if [ ! -d seven ]; then
    rm -rf seven.part three
    mkdir -p seven.part/train seven.part/test three/train three/test
    tar -xf "$folder/train.tar" -C seven.part/train
    tar -xf "$folder/test.tar" -C seven.part/test
    for class in $others; do
        mkdir -p "three/train/$class"
        find "seven.part/train/$class" -name '*.jpg' | sort | head -n 50 | xargs -I{} cp {} "three/train/$class/"
        mv "seven.part/test/$class" three/test/
        rm -rf "seven.part/train/$class"
    done
    mv seven.part seven
fi

# network WIDE|NARROW CLASSES: bench/transfer.yaml with as many classes, all widths halved for NARROW.
network() {
    sed -e "s/features: 10/features: $2/" "$here/bench/transfer.yaml" |
        if [ "$1" = narrow ]; then
            sed -e 's/channels: 32,/channels: 16,/; t' -e 's/channels: 64,/channels: 32,/; t' -e 's/channels: 128,/channels: 64,/; t' \
                -e 's/channels: 256,/channels: 128,/'
        else
            cat
        fi
}

last_accuracy() { # of a run: the accuracy of its last evaluation
    grep -h val_accuracy "$1/metrics.jsonl" | tail -n 1 | sed 's/.*"val_accuracy":\([0-9.e-]*\).*/\1/'
}

more_arguments="$*"
train() { # RUN, arguments: a run that is whole already stays
    run=$1
    shift
    [ -e "$run.done" ] && return
    rm -rf "$run"
    # shellcheck disable=SC2086 # words
    "$gpipe" train "$@" $more_arguments --out "$run" >"$run.log" 2>&1 || { tail -n 5 "$run.log" >&2; exit 1; }
    touch "$run.done"
}

pretraining=${TRANSFER_PRETRAINING:-$((35000 * epochs / 256))}
printf '%-7s %-13s %8s %8s   %s\n' network start mean std "accuracy of each seed"
for size in wide narrow; do
    network "$size" 7 >"$size-7.yaml"
    network "$size" 3 >"$size-3.yaml"
    train "$size-pretrained" "$size-7.yaml" --set data.images=seven/train --set data.validation=seven/test \
        --set train.steps="$pretraining" --set optimizer.schedule.warmup=$((pretraining / 5)) --set train.eval_every="$pretraining"
    echo "$size: pre-trained to $(last_accuracy "$size-pretrained") on seven classes" >&2
    for start in scratch pretrained; do
        figures=""
        for seed in ${TRANSFER_SEEDS:-1 2 3 4 5}; do
            run=$size-$start-$seed
            set -- --set data.images=three/train --set data.validation=three/test --set train.batch=50 --set pipeline.micro_batches=1 \
                --set train.steps="$steps" --set train.seed="$seed" --set optimizer.schedule.warmup=$((steps / 5)) --set train.eval_every="$steps"
            [ "$start" = scratch ] ||
                set -- "$@" --set optimizer.lr=0.02 --set train.init_from="$size-pretrained" --set 'train.replace=[head]'
            train "$run" "$size-3.yaml" "$@"
            figures="$figures $(last_accuracy "$run")"
        done
        echo "$figures" | awk -v size="$size" -v start="$start" '{
            for (i = 1; i <= NF; i++) { sum += $i; squares += $i * $i }
            mean = sum / NF
            deviation = NF > 1 ? sqrt((squares - NF * mean * mean > 0 ? squares - NF * mean * mean : 0) / (NF - 1)) : 0
            printf "%-7s %-13s %7.2f%% %7.2f%%  %s\n", size, start, 100 * mean, 100 * deviation, $0 }'
    done
done
