# gpipe tokenize and data.tokens, with a tokenizer of a few merges.
load helper

setup() {
    cd "$BATS_TEST_TMPDIR"
    make_corpus
    make_config
    make_tokenizer
}

# Bytes that the corpus has, a few merges, and the end of a text: GPT-2's kind.
make_tokenizer() {
    mkdir tokenizer
    local id=0
    {
        printf '{'
        for token in a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9 . Ċ Ġ th the Ġthe; do
            printf '"%s":%d,' "$token" "$id"
            id=$((id + 1))
        done
        printf '"<|endoftext|>":%d}' "$id"
    } >tokenizer/vocab.json
    printf '#version: 0.2\nt h\nth e\nĠ the\n' >tokenizer/merges.txt
}

field() { # NAME: a number of the JSON on stdout
    printf '%s\n' "$stdout" | sed -n "s/^ *\"$1\": \([0-9.]*\),*$/\1/p"
}

@test "text becomes a token file, which trains like the text itself" {
    gpipe tokenize corpus.txt --tokenizer tokenizer --out corpus.bin --json
    ended 0
    [ "$(field documents)" -eq 1 ]
    [ "$(field token_bytes)" -eq 2 ]
    [ "$(field vocabulary)" -eq 43 ]
    [ "$(wc -c <corpus.bin)" -eq $((1024 + 2 * $(field tokens))) ]
    gpipe train run.yaml --set data.tokenizer=tokenizer --out text -q
    ended 0
    gpipe train run.yaml --set data.text= --set data.tokens=corpus.bin --set data.tokenizer=tokenizer --out tokens -q
    ended 0
    cmp text/checkpoints/latest/model.safetensors tokens/checkpoints/latest/model.safetensors
    cmp text/tokenizer.json tokens/tokenizer.json
    # The run has all it needs, wherever it lies.
    rm -r tokenizer
    mv tokens elsewhere
    gpipe eval elsewhere
    ended 0
    says "bits per token"
    gpipe sample elsewhere -n 5 --prompt "the cat"
    ended 0
    says "the cat"
    gpipe eval elsewhere --data corpus.txt
    ended 0
    [ "$(printf '%s' "$stdout" | sed 's/over.*//')" = "$("$GPIPE" eval text --data corpus.bin | sed 's/over.*//')" ]
}

@test "any number of threads, files and the standard input give the same tokens" {
    gpipe tokenize corpus.txt --tokenizer tokenizer -o one.bin --threads 1 -q
    ended 0
    gpipe tokenize 'corp*.txt' --tokenizer tokenizer -o many.bin --threads 3 -q
    ended 0
    cmp one.bin many.bin
    "$GPIPE" tokenize - --tokenizer tokenizer -o input.bin -q <corpus.txt
    cmp one.bin input.bin
}

@test "documents end with the tokenizer's token" {
    gpipe tokenize corpus.txt --tokenizer tokenizer -o a.bin --documents line --json
    ended 0
    [ "$(field documents)" -eq 80 ]
    lines=$(field tokens)
    gpipe tokenize corpus.txt --tokenizer tokenizer -o b.bin --documents line --end-of-text none --json
    ended 0
    [ "$lines" -eq $(($(field tokens) + 80)) ]
    sed 's/.*/{"body": "&"}/' corpus.txt >corpus.jsonl
    gpipe tokenize corpus.jsonl --tokenizer tokenizer -o c.bin --documents json --field body -q
    ended 0
    cmp a.bin c.bin
    refused 2 "no token \"nothing\"" tokenize corpus.txt --tokenizer tokenizer -o d.bin --end-of-text nothing
    refused 2 "the tokenizer has no token for the end of a text" tokenize corpus.txt --tokenizer byte -o d.bin --documents line
}

@test "shards, bare ids, and files that are there" {
    gpipe tokenize corpus.txt --tokenizer tokenizer -o corpus.bin --file-tokens 500
    ended 0
    says "corpus_000000.bin and the following"
    refused 2 "corpus_000000.bin' is there already" tokenize corpus.txt --tokenizer tokenizer -o corpus.bin
    gpipe tokenize corpus.txt --tokenizer tokenizer -o corpus.bin --format raw --force -q
    ended 0
    [ ! -e corpus_000000.bin ]
    gpipe train run.yaml --set data.text= --set data.tokens=corpus.bin --set model.vocabulary=43 -q
    ended 0
    # Without a tokenizer there is nothing to write text with, until one is given.
    refused 2 "--tokenizer is needed" sample out -n 3
    gpipe sample out -n 3 --tokenizer tokenizer
    ended 0
    refused 2 "no tokenizer.json to encode a text with" eval out --data corpus.txt
    gpipe eval out --data corpus.bin
    ended 0
}

@test "validation tokens of their own" {
    gpipe tokenize corpus.txt --tokenizer tokenizer -o train.bin -q
    head -5 corpus.txt | "$GPIPE" tokenize - --tokenizer tokenizer -o held.bin --json >held.json
    gpipe train run.yaml --set data.text= --set data.tokens=train.bin --set data.validation_tokens=held.bin -q
    ended 0
    gpipe eval out
    ended 0
    says "over $(($(sed -n 's/^ *"tokens": \([0-9]*\),$/\1/p' held.json) - 1)) tokens"
}

@test "what cannot be tokenized is refused with a sentence" {
    refused 2 "--tokenizer is missing" tokenize corpus.txt -o a.bin
    refused 2 "--out is missing" tokenize corpus.txt --tokenizer tokenizer
    refused 2 "none.txt' could not be opened" tokenize none.txt --tokenizer tokenizer -o a.bin
    refused 2 "--tokenizer: 'none' could not be opened" tokenize corpus.txt --tokenizer none -o a.bin
    refused 2 "TEXT... is missing" tokenize --tokenizer tokenizer -o a.bin
    refused 2 "--field is for --documents json" tokenize corpus.txt --tokenizer tokenizer -o a.bin --field x
    echo 'A' >capital.txt
    refused 2 "capital.txt': the text has the byte 0x41, for which the vocabulary of 43 tokens has none" \
        tokenize capital.txt --tokenizer tokenizer -o a.bin
    refused 2 "line at byte 0 is not valid JSON" tokenize corpus.txt --tokenizer tokenizer -o a.bin --documents json
    [ ! -e a.bin ]
}

@test "data keys that do not go together are refused" {
    gpipe tokenize corpus.txt --tokenizer tokenizer -o a.bin -q
    refused 2 "data.text and data.tokens are both given" train run.yaml --set data.tokens=a.bin
    refused 2 "data.validation_tokens is for data.tokens" train run.yaml --set data.validation_tokens=a.bin
    refused 2 "char, byte, or a folder or file that is there" train run.yaml --set data.tokenizer=chars
    refused 2 "char is made from a text" train run.yaml --set data.text= --set data.tokens=a.bin --set data.tokenizer=char
    refused 2 "up to 20 are accepted" train run.yaml --set data.text= --set data.tokens=a.bin --set model.vocabulary=20
    refused 2 "has no header of a token file" train run.yaml --set data.text= --set data.tokens=corpus.txt
}

@test "sample loses none of the bytes that a text of several tokens is made of" {
    printf 'é世😀é世😀\n%.0s' $(seq 1 200) >corpus.txt
    gpipe train run.yaml --set data.tokenizer=byte -q
    ended 0
    "$GPIPE" sample out -n 120 --prompt 'é世' >sampled.txt
    [ "$(wc -c <sampled.txt)" -eq $((5 + 120 + 1)) ]
}
