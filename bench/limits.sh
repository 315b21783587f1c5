#!/bin/bash
# A limit that the operating system sets: ranks that may have so much address space each (ulimit -v) train a model together that one
# such rank cannot. Prints both.
#
#   bench/limits.sh BUILD [--limit=KiB] [--ranks=4] [--layers=16] [--json] [--mpi=openmpi]
set -eu
# shellcheck source=bench/options.sh
. "$(dirname "$(realpath "$0")")/options.sh"
limit=1572864 ranks=4 layers=16 mpi=openmpi
read_options "limit ranks layers mpi" "$@"
export LIMIT=$limit OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
make_text 400 >corpus.txt
cat >run.yaml <<YAML
model: {name: gpt2, layers: $layers, heads: 12, width: 768, context: 64}
data: {text: corpus.txt}
pipeline: {micro_batches: 4, balance: parameters}
train: {batch: 4, steps: 2, eval_every: 0}
checkpoint: {every: 0}
YAML
cat >limited <<'SH'
#!/bin/sh
ulimit -v "$LIMIT" && exec "$GPIPE" "$@"
SH
chmod +x limited

# The lines of a failure that say why.
why() { grep -v '^ *$' log.txt | tail -n 3; }

attempt() { # ranks
    status=0
    if [ "$1" = 1 ]; then
        ./limited train run.yaml --out "out-$1" >log.txt 2>&1 || status=$?
    else
        mpirun."$mpi" -n "$1" ./limited train run.yaml --out "out-$1" >log.txt 2>&1 || status=$?
    fi
    steps=0
    [ ! -e "out-$1/metrics.jsonl" ] || steps=$(wc -l <"out-$1/metrics.jsonl")
    if [ -n "$json" ]; then
        printf '{"bench": "limits", "ranks": %d, "limit_bytes": %d, "status": %d, "steps": %d}\n' "$1" $((limit * 1024)) "$status" "$steps"
    elif [ "$status" = 0 ]; then
        printf '%d ranks: trained %d steps\n' "$1" "$steps"
    else
        printf '%d rank: ended with status %d after %d steps\n' "$1" "$status" "$steps"
        why | sed 's/^/    /'
    fi
}

[ -n "$json" ] || {
    parameters=$("$GPIPE" plan run.yaml --json | sed -n 's/.*"parameters": *\([0-9]*\).*/\1/p' | head -n 1)
    printf 'GPT of %d blocks, %s parameters; %d MiB of address space a rank (ulimit -v %d)\n' "$layers" "$parameters" $((limit / 1024)) "$limit"
}
attempt 1
alone=$status
attempt "$ranks"
[ "$alone" != 0 ] && [ "$status" = 0 ]
