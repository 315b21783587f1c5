# gpipe inspect: safetensors files, sound and broken.
load helper

# write_file HEADER DATA: a safetensors file x.safetensors.
write_file() {
    local length=${#1}
    printf "\\x$(printf %02x $((length % 256)))\\x$(printf %02x $((length / 256)))\\0\\0\\0\\0\\0\\0" >x.safetensors
    printf '%s' "$1" >>x.safetensors
    printf "$2" >>x.safetensors
}

@test "tensors, metadata, what is not finite" {
    write_file '{"__metadata__":{"made by":"hand"},"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}' \
        '\0\0\200\77\0\0\0\300\0\0\300\177\0\0\200\177'
    gpipe inspect x.safetensors
    ended 0
    says "made by: hand"
    says "f32[2,2]"
    says "2.23607"
    says "1 tensor, 4 elements, 16 B, 2 not finite"
    gpipe inspect x.safetensors --json
    ended 0
    says '"nan": 1'
    says '"infinite": 1'
    says '"min": -2.0'
    says '"max": 1.0'
    says '"made by": "hand"'
}

@test "a run directory and a checkpoint stand for their weights" {
    gpipe train run.yaml
    ended 0
    for place in out out/checkpoints/step-4 out/checkpoints/best/model.safetensors; do
        gpipe inspect "$place"
        ended 0
        says "layers.0.token.weight"
    done
}

@test "broken files are refused with a sentence" {
    refused 2 "none.safetensors: there is no such file" inspect none.safetensors
    mkdir folder
    refused 2 "folder holds no weights" inspect folder
    : >empty
    refused 2 "empty" inspect empty
    printf 'abc' >short
    refused 2 "short" inspect short
    head -c 3000 "$GPIPE" >program
    refused 2 "program" inspect program
    printf '\377\377\377\377\377\377\377\177{}' >huge
    refused 2 "huge" inspect huge
    write_file '{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}' '\0\0\0\0'
    refused 2 "x.safetensors" inspect x.safetensors
    write_file '{"a":{"dtype":"F32","shape":[4000000000,4000000000],"data_offsets":[0,16]}}' '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    refused 2 "x.safetensors" inspect x.safetensors
    write_file '{"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}}' '\0\0\0\0'
    refused 2 "F99" inspect x.safetensors
    write_file '{"a":' ''
    refused 2 "x.safetensors" inspect x.safetensors
}

@test "the same and the different, tensor by tensor" {
    gpipe train run.yaml
    ended 0
    gpipe train run.yaml --out twin
    ended 0
    gpipe inspect --diff out twin
    ended 0
    says "the same, 0 different, 0 of other types, 0 and 0 in one only"
    gpipe train run.yaml --set train.seed=1 --out third
    gpipe inspect --diff out third
    ended 1
    says "layers.1.attention.qkv.weight"
    says "tensors: 0 the same, 28 different"
    gpipe inspect --diff out third --json
    ended 1
    says '"same": false'
    says '"verdict": "different"'
    gpipe train run.yaml --set model.width=32 --set model.bias=false --out fourth
    gpipe inspect --diff out fourth
    ended 1
    says "f32[16,16]               f32[16,32] in the second  layers.0.position.weight"
    says "f32[16]                  only in the first  layers.1.norm1.bias"
    gpipe inspect --diff fourth out
    says "only in the second  layers.1.norm1.bias"
    refused 2 "inspect: --diff needs two files" inspect --diff out
    refused 2 "inspect: two files are given: --diff compares them" inspect out twin
    refused 2 "none: there is no such file" inspect --diff out none
}

@test "differences in numbers, NaN beside NaN" {
    write_file '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' '\0\0\200\77\0\0\300\177'
    mv x.safetensors one.safetensors
    write_file '{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}' '\0\0\0\100\0\0\300\177'
    gpipe inspect --diff one.safetensors x.safetensors --json
    ended 1
    says '"largest": 1.0'
    says '"relative": 1.0'
    says '"elements": 1'
}

@test "shards, folders of transformers, names in the order of counting" {
    gpipe train run.yaml --set model.layers=10
    ended 0
    gpipe export out --out hf
    gpipe inspect hf --json
    ended 0
    says '"kind": "safetensors"'
    says '"format": "pt"'
    mv hf/model.safetensors hf/model-00001-of-00001.safetensors
    gpipe inspect hf/model-00001-of-00001.safetensors --json
    grep -o '"name": "[^"]*"' <<<"$stdout" | sed 's/"name": //; s/$/: "model-00001-of-00001.safetensors"/' >names
    echo "{\"weight_map\": {$(paste -sd, names)}}" >hf/model.safetensors.index.json
    gpipe inspect hf
    ended 0
    says "hf/model.safetensors.index.json (safetensors): 124 tensors"
    [ "$(grep -n 'h.2.ln_1.bias' <<<"$stdout" | cut -d: -f1)" -lt "$(grep -n 'h.9.ln_1.bias' <<<"$stdout" | cut -d: -f1)" ] || fail "order"
    gpipe inspect out
    [ "$(grep -n 'layers.2.norm1.bias' <<<"$stdout" | cut -d: -f1)" -lt "$(grep -n 'layers.10.norm1.bias' <<<"$stdout" | cut -d: -f1)" ] || fail "order"
    gpipe import hf --out back
    ended 0
    gpipe inspect --diff out back
    ended 0
}

@test "a checkpoint is verified, byte for byte" {
    gpipe train run.yaml -q --set checkpoint.every=2
    gpipe inspect --verify out
    ended 0
    says "out/checkpoints/step-4: whole: step 4 of 4, "
    says "out/checkpoints/step-2: whole"
    gpipe inspect --verify out/checkpoints/latest --json
    ended 0
    says '"whole": true'
    file=out/checkpoints/step-4/optimizer.safetensors
    size=$(stat -c %s "$file")
    printf '\377' | dd of="$file" bs=1 seek=$((size - 1)) conv=notrunc 2>/dev/null
    gpipe inspect --verify out
    ended 2
    says "out/checkpoints/step-4: DAMAGED: tensor "
    says "1 of 2 checkpoints is damaged"
    truncate -s 100 "$file"
    gpipe inspect --verify out/checkpoints/step-4
    ended 2
    says "has 100 bytes, but $size were written"
    refused 2 "is not a folder" inspect --verify run.yaml
    mkdir empty
    gpipe inspect --verify empty
    ended 2
    says "state.json' could not be opened"
}

@test "names that are not UTF-8 are shown, and nothing is left out" {
    gpipe train run.yaml -q
    name=$(printf 'r\377n')
    refused 2 "this is not UTF-8, which a configuration is written in" train run.yaml -q --out "$name"
    mv out "$name"
    for options in "--verify" "" "--diff $name"; do
        gpipe inspect "$name" $options --json
        ended 0
        says 'r?n/checkpoints'
    done
    gpipe inspect --verify "$name" --json
    [ "$(grep -c '"whole": true' <<<"$stdout")" -eq 1 ] || fail "not one checkpoint"
}

@test "numbers that JSON does not have are null, and their tensors are there" {
    # 1.7e308 twice, and 1e-300: no norm, no sum
    write_file '{"a":{"dtype":"F64","shape":[2],"data_offsets":[0,16]},"b":{"dtype":"F64","shape":[1],"data_offsets":[16,24]}}' \
        '\351\242\363\371\303\102\356\177\351\242\363\371\303\102\356\177\131\363\370\302\037\156\245\001'
    gpipe inspect x.safetensors --json
    ended 0
    [ "$(grep -c '"name"' <<<"$stdout")" -eq 2 ] || fail "tensors are missing"
    says '"norm": null'
    says '"mean": null'
}

@test "what excludes each other is refused" {
    gpipe train run.yaml -q
    refused 2 "--diff and --verify exclude each other" inspect --verify --diff out out
    refused 2 "two files are given: --diff compares them" inspect out out
    refused 2 "--diff needs two files" inspect --diff out
}
