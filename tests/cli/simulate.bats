# Schedules timed and proved.
load helper

# span K M SCHEDULE SECONDS [OPTION...]
span() {
    gpipe simulate --stages "$1" --micro-batches "$2" --schedule "$3" "${@:5}"
    ended 0
    says "span $4 s"
}

@test "published spans of GPipe and 1F1B, F=1 and B=2" {
    span 2 2 gpipe 9
    span 2 4 gpipe 15
    span 4 4 gpipe 21
    span 4 8 gpipe 33
    span 3 5 gpipe 21
    span 4 2 gpipe 15
    span 4 8 1f1b 33
    span 3 5 1f1b 21
    span 2 2 naive 12
}

@test "early recomputation makes the bubble smaller" {
    span 4 32 gpipe 137 --times 1,1,2 --recompute always
    says "bubble 6.57%"
    says "is 8.57%"
}

@test "the time line" {
    gpipe simulate -k 2 -m 2 --times 1,1,2
    ended 0
    says "   0 |F0F1......B0--B1--|"
    says "   1 |..F0F1B0--B1--....|"
}

@test "--json has every action" {
    gpipe simulate -k 2 -m 2 --json
    ended 0
    [ "$(grep -c '"action"' stdout.txt)" -eq 8 ]
    says '"span": 9.0'
    says '"in_flight": 2'
}

@test "times are checked" {
    refused 2 '--times is "1,2"; accepted: seconds' simulate --times 1,2
    refused 2 '--times is "1,x,2"' simulate --times 1,x,2
    refused 2 '--times is "-1,1,1"' simulate --times=-1,1,1
    refused 2 '--times is "1,1,1,1,1"' simulate --times 1,1,1,1,1
    gpipe simulate --times 0,0,0
    ended 0
}

@test "a file with a deadlock, an incomplete one, a broken one" {
    printf 'F0 B0 F1 B1\nF0 F1 B1 B0\n' >deadlock.txt
    refused 2 "deadlock.txt" simulate --file deadlock.txt
    printf 'F0 F1 B0 B1\nF0 F1 B0\n' >missing.txt
    refused 2 "missing.txt" simulate --file missing.txt
    printf 'hello\n' >text.txt
    refused 2 "line 1, column 1" simulate --file text.txt
    refused 2 "could not be opened" simulate --file none.txt
    refused 2 "--stages and --file exclude each other" simulate --file text.txt --stages 2
    : >empty.txt
    refused 2 "empty.txt is empty" simulate --file empty.txt
}

@test "a file with sends and receives" {
    printf 'F0 SEND_F0 F1 SEND_F1 RECV_B0 B0 RECV_B1 B1\nRECV_F0 F0 RECV_F1 F1 B0 SEND_B0 B1 SEND_B1\n' >lowered.txt
    gpipe simulate --file lowered.txt
    ended 0
    says "span 9 s"
}

@test "many workers are timed without a drawing" {
    gpipe simulate -k 200 -m 400
    ended 0
    silent_about "|"
    refused 2 "" simulate -k 16384 -m 1048576
}
