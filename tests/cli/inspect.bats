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
    says "1 tensors, 4 elements, 16 B, 2 not finite"
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
