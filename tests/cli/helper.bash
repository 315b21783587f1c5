# What every suite uses. $GPIPE is the program; each test runs in a folder of its own.

setup() {
    cd "$BATS_TEST_TMPDIR"
    make_corpus
    make_config
}

# 2,400 characters of an alphabet of 16.
make_corpus() {
    for i in $(seq 1 80); do
        printf 'the cat number %03d sat there.\n' "$((i * 37 % 211))"
    done >corpus.txt
}

# A model that trains in milliseconds. The line numbers matter to tests of messages.
make_config() {
    cat >run.yaml <<'YAML'
model:
  name: gpt2
  layers: 2
  heads: 2
  width: 16
  context: 16
data:
  text: corpus.txt
pipeline:
  partitions: 2
  micro_batches: 2
  balance: parameters
train:
  batch: 4
  steps: 4
  out: out
YAML
}

# Runs the program with its output in $output (both streams), $stdout, $stderr and its status in $status. At most a minute.
gpipe() {
    status=0
    timeout -k 5 60 "$GPIPE" "$@" >stdout.txt 2>stderr.txt </dev/null || status=$?
    stdout=$(cat stdout.txt)
    stderr=$(cat stderr.txt)
    output="$stdout
$stderr"
}

# Fails unless the program ended with this status.
ended() {
    [ "$status" -eq "$1" ] || fail "status $status instead of $1"
}

# Fails unless this text is in what was printed.
says() {
    case "$output" in
    *"$1"*) ;;
    *) fail "nothing says: $1" ;;
    esac
}

silent_about() {
    case "$output" in
    *"$1"*) fail "something says: $1" ;;
    esac
}

fail() {
    printf '%s\n--- status %s, it printed:\n%s\n' "$1" "$status" "$output" >&2
    return 1
}

# refused STATUS TEXT ARGUMENT...: the command fails so, says so, and prints no data.
refused() {
    local wanted=$1 text=$2
    shift 2
    gpipe "$@"
    ended "$wanted"
    says "$text"
    [ -z "$stdout" ] || fail "it printed data"
}
