# A worker's thread that ends inside a step: one message, at once, and the status of a lost peer.
load helper

@test "a worker that dies is one clear message and status 4, never a hang" {
    status=0
    timeout -k 5 30 "$DYING_WORKER" >stdout.txt 2>stderr.txt || status=$?
    output=$(cat stdout.txt stderr.txt)
    ended 4
    [ "$(grep -c "ended unexpectedly" stderr.txt)" -eq 1 ]
    [ "$(wc -l <stderr.txt)" -eq 1 ]
    grep -Eq '^worker [01] ended unexpectedly$' stderr.txt
}
