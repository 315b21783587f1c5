# A run that is killed again and again at random instants, while it saves every step: every time it can go on, and in the
# end it has the bits of a run that was never killed.
load helper

# How often; the pauses come from a fixed seed. The instant is anywhere in a window (milliseconds) that grows as long as
# lives are too short to go on: how long a start takes depends on the machine.
KILLS=50

@test "$KILLS kills at random instants lose nothing" {
    settings="--set checkpoint.every=1 --set train.eval_every=5 --set train.eval_windows=8 --set model.dropout=0.1"
    RANDOM=7
    gone_on=0
    window=200
    for kill in $(seq "$KILLS"); do
        # Which partitions and whether in the background changes from life to life.
        "$GPIPE" train run.yaml --resume auto $settings --set train.steps=10000000 --set pipeline.partitions=$((kill % 3 + 1)) \
            --set checkpoint.background=$([ $((kill % 2)) = 0 ] && echo true || echo false) >/dev/null 2>stderr.txt </dev/null &
        child=$!
        pause=$((10 + RANDOM % window))
        sleep "$((pause / 1000)).$(printf %03d $((pause % 1000)))"
        kill -KILL "$child" 2>/dev/null || fail "it ended by itself: $(cat stderr.txt)"
        wait "$child" 2>/dev/null || :
        if grep -q "goes on after step" stderr.txt; then
            gone_on=$((gone_on + 1))
        else
            window=$((window + window / 4))
        fi
        if grep -q "passed over" stderr.txt; then fail "damaged: $(cat stderr.txt)"; fi
        if newest=$(ls -d out/checkpoints/step-* 2>/dev/null | sort -t- -k2 -n | tail -1) && [ -n "$newest" ]; then
            gpipe inspect --verify "$newest"
            ended 0
        fi
    done
    [ "$gone_on" -ge $((KILLS / 3)) ] || fail "it went on only $gone_on times"
    reached=$(ls out/checkpoints | sed -n 's/^step-//p' | sort -n | tail -1)
    steps=$((reached + 3))
    gpipe train run.yaml --resume auto $settings --set train.steps="$steps"
    ended 0
    says "goes on after step $reached of $steps"
    gpipe train run.yaml -q --out whole $settings --set checkpoint.every=0 --set train.steps="$steps"
    ended 0
    for file in model.safetensors optimizer.safetensors; do
        cmp "out/checkpoints/step-$steps/$file" "whole/checkpoints/step-$steps/$file"
    done
    for run in out whole; do
        [ "$(wc -l <$run/metrics.jsonl)" -eq "$steps" ]
        # What is measured, and what the number of partitions decides.
        sed -E 's/,"([a-z_]*seconds|[a-z]*_per_second|bubble|messages|message_bytes|links)":(\[[^]]*\]|[^],}]*)//g' $run/metrics.jsonl >$run.txt
    done
    diff out.txt whole.txt
    [ -z "$(find out/checkpoints -name ".*" -not -name checkpoints)" ] || fail "left: $(ls -A out/checkpoints)"
}
