#!/bin/bash
# Training over a slow network beside training over an unlimited one: two machines (network namespaces, tools/virtual-hosts), a rank on
# each, cables of 1 Gbit/s and, where the kernel has netem, 1 ms. As a pipeline (K=2), which sends activations of micro-batches, and
# as replicas (D=2), which send all gradients. GPipe's Table 3: pipelines do not need a fast interconnect. Runs take turns; the figure
# is the ratio of median seconds a step, the median over the rounds.
#
#   bench/hosts.sh BUILD [--rounds=3] [--steps=6] [--rate=1gbit] [--delay=1ms] [--mpi=openmpi] [--json]
set -eu
here=$(dirname "$(realpath "$0")")
# shellcheck source=bench/options.sh
. "$here/options.sh"
rounds=3 steps=6 rate=1gbit delay=1ms mpi=openmpi
read_options "rounds steps rate delay mpi" "$@"
make_text 4000 >corpus.txt
cat >run.yaml <<'YAML'
model: {name: gpt2, layers: 8, heads: 4, width: 256, context: 128}
data: {text: corpus.txt}
pipeline: {micro_batches: 16, balance: flops}
train: {batch: 32, eval_every: 0}
YAML

median() { sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

# Seconds a step of a run with these options of the network and of gpipe.
measure() { # network, settings
    rm -rf out
    # shellcheck disable=SC2086
    "$here/../tools/virtual-hosts" --hosts 2 --mpi "$mpi" $1 bash -c \
        "\$MPIRUN -n 2 \"\$GPIPE\" train run.yaml -q --out out --set train.steps=$((steps + 1)) $2" >log.txt 2>&1 || {
        code=$?
        cat log.txt >&2
        exit $code
    }
    grep "no netem" log.txt >&2 || true
    # The step's own, which come first: links have seconds too.
    awk 'match($0, /"seconds": *[0-9.e+-]+/) {split(substr($0, RSTART, RLENGTH), part, ":"); print part[2]}' out/metrics.jsonl |
        tail -n +2 | median
}

[ -n "$json" ] || printf '%-28s %12s %12s %8s\n' "two machines, $rate" "s/step" "unlimited" "speed"
report() { # name, settings
    : >ratios
    for _ in $(seq 1 "$rounds"); do
        free=$(measure "" "$2")
        limited=$(measure "--rate $rate --delay-if-any $delay" "$2" 2>notes)
        awk -v l="$limited" -v f="$free" 'BEGIN {print f / l, l, f}' >>ratios
    done
    ratio=$(cut -d' ' -f1 ratios | median) limited=$(cut -d' ' -f2 ratios | median) free=$(cut -d' ' -f3 ratios | median)
    if [ -n "$json" ]; then
        printf '{"bench": "hosts", "grid": "%s", "rate": "%s", "seconds": %s, "unlimited_seconds": %s, "speed": %s}\n' \
            "$1" "$rate" "$limited" "$free" "$ratio"
    else
        printf '%-28s %12.4f %12.4f %7.1f%%\n' "$1" "$limited" "$free" "$(awk -v r="$ratio" 'BEGIN {print 100 * r}')"
    fi
}
report K=2 "--set pipeline.partitions=2"
report D=2 "--set pipeline.replicas=2 --set pipeline.micro_batches=8"
cat notes >&2
