# plan, profile, gradients, doctor: what is known before and beside training.
load helper

@test "plan prints a row for each worker and writes nothing" {
    gpipe plan run.yaml
    ended 0
    says "worker  layers"
    says "bubble"
    [ -z "$stderr" ]
    [ ! -e out ]
}

@test "on a terminal plan names the layer that it measures, and stdout has the table alone" {
    command -v script >/dev/null || skip "no script(1)"
    TERM=xterm script -qec "'$GPIPE' plan run.yaml --set pipeline.balance=time >table.txt" typescript </dev/null >/dev/null
    grep -q "measuring layer 1 of 5 (" typescript || fail "$(cat typescript)"
    grep -q "worker  layers" table.txt
    ! grep -q measuring table.txt || fail "progress in the table"
}

@test "plan --json has the figures of each worker" {
    gpipe plan run.yaml --json
    ended 0
    for key in parameters bubble step_seconds workers first_layer last_layer seconds bytes gradients optimizer stash workspace communication total; do
        says "\"$key\": "
    done
}

@test "what was planned is what a run measures" {
    gpipe train run.yaml --json
    ended 0
    [ "$(grep -A1 '"planned": [0-9]*,' stdout.txt | grep -c '"measured": [0-9]*$')" -ge 2 ]
    [ "$(grep -o '"planned": [0-9]*,$' stdout.txt | grep -o '[0-9]*')" = "$(grep -o '"measured": [0-9]*$' stdout.txt | grep -o '[0-9]*')" ]
}

@test "a plan that does not fit is printed and ends with status 3" {
    gpipe plan run.yaml --set device.memory=20KiB
    ended 3
    says "over the limit"
    says "the plan does not fit device.memory of 20.0 KiB a worker"
    gpipe plan run.yaml --set device.memory=1GiB
    ended 0
    says "fits"
}

@test "workers that differ: memory and speed for each" {
    gpipe plan run.yaml --json
    ended 0
    both=$(grep -A12 '"bytes"' stdout.txt | sed -n 's/.*"total": \([0-9]*\).*/\1/p')
    set -- $both
    gpipe plan run.yaml --set "device.memory=[$1, $2]"
    ended 0
    says "limit"
    says ": fits"
    gpipe plan run.yaml --set 'device.memory=[none, 1KiB]'
    ended 3
    says "the plan does not fit device.memory of each worker"
    says "over the limit"
    refused 3 "need" train run.yaml --set 'device.memory=[none, 1KiB]'
    says "device.memory of the worker = 1.00 KiB: worker 1 needs"
    refused 2 "device.memory has 3 entries; 2, one for each partition, are accepted" plan run.yaml --set 'device.memory=[1GiB, none, 1GiB]'
    refused 2 "or a list of such" plan run.yaml --set 'device.memory=[1GiB, much]'
    gpipe plan run.yaml --set 'pipeline.speeds=[1, 0.01]' --set pipeline.balance=flops --json
    ended 0
    says '"speed": 0.01'
    [ "$(grep -c '"last_layer": 3' stdout.txt)" -eq 1 ] || fail "the slow one holds more than a layer"
    refused 2 "pipeline.speeds has 1 entry; 2, one for each partition, or 4, one for each worker" plan run.yaml --set pipeline.speeds=1 --set pipeline.replicas=2
    refused 2 "from 0.001 to 1000" plan run.yaml --set 'pipeline.speeds=[1, 0]'
    # What a run was trained with does not bind its evaluation.
    gpipe train run.yaml --set pipeline.replicas=2 --set 'device.memory=[1GiB, 1GiB, none, 2GiB]' --set 'pipeline.speeds=[1, 1, 2, 1]' -q
    ended 0
    gpipe train run.yaml --set pipeline.replicas=2 --out alike -q
    cmp out/checkpoints/latest/model.safetensors alike/checkpoints/latest/model.safetensors
    gpipe eval out
    ended 0
}

@test "plan --schedule prints lines that a schedule file may hold" {
    gpipe plan run.yaml --schedule --set pipeline.recompute=always --set pipeline.schedule=1f1b
    ended 0
    says "F0 F1 R0 B0 R1 B1"
    grep '^F' stdout.txt >mine.txt
    gpipe simulate --file mine.txt
    ended 0
}

@test "stages balanced by measured time, by operations" {
    gpipe plan run.yaml --set pipeline.balance=time
    ended 0
    says "step "
    gpipe plan run.yaml --set pipeline.balance=flops
    ended 0
}

@test "profile prints every layer" {
    gpipe profile run.yaml
    ended 0
    says "text_embedding"
    says "transformer"
    says "together"
    says "for a micro-batch of 2 samples"
    gpipe profile run.yaml --json
    ended 0
    [ "$(grep -c '"flops"' stdout.txt)" -eq 5 ]
}

@test "gradients writes parameters and gradients of the first mini-batch" {
    gpipe gradients run.yaml --out g.safetensors
    ended 0
    gpipe inspect g.safetensors
    ended 0
    says "gradients.layers.0.token.weight"
    says "parameters.layers.0.token.weight"
    says "i32[4,16]"
    says "inputs"
    says "targets"
    says "loss"
    gpipe gradients run.yaml --out k1.safetensors --set pipeline.partitions=1
    cmp g.safetensors k1.safetensors
    refused 2 "--out FILE is missing" gradients run.yaml
    refused 1 "none/g.safetensors" gradients run.yaml --out none/g.safetensors
}

@test "doctor describes and measures" {
    gpipe doctor --seconds 0.1
    ended 0
    says "processor"
    says "GFLOP/s"
    says "own kernels"
    gpipe doctor --seconds 0.1 --json
    ended 0
    says '"warnings": ['
    says '"product_f32": '
}
