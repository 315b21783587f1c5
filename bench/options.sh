# shellcheck shell=bash
# What benchmarks that are scripts share; sourced by bash: options of a script, which is called SCRIPT BUILD [--name=value]... [--json],
# and the folder that it works in.

# Prints the comment at the head of the script.
print_head() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# read_options NAMES "$@": the build folder becomes $build, each --name=value the variable $name, which must be one of NAMES; --json sets
# $json. Starts no MPI that is not here ($mpi) and goes to a folder of its own.
read_options() {
    local names=" $1 " argument name
    shift
    case ${1-} in --help) print_head && exit 0 ;; "" | -*) print_head >&2 && exit 2 ;; esac
    # shellcheck disable=SC2034 # the script's
    build=$(realpath "$1") json=""
    shift
    for argument; do
        name=${argument%%=*} name=${name#--}
        if [ "$argument" = --json ]; then
            # shellcheck disable=SC2034
            json=yes
        elif [[ $argument == --*=* && $names == *" $name "* ]]; then
            printf -v "$name" %s "${argument#*=}"
        else
            echo "$(basename "$0"): $argument is not known" >&2
            exit 2
        fi
    done
    # shellcheck disable=SC2154 # the script has set it
    command -v mpirun."$mpi" >/dev/null || { echo "there is no mpirun.$mpi" >&2; exit 77; }
    export GPIPE=$build/cli/gpipe
    [ -x "$GPIPE" ] || { echo "$(basename "$0"): there is no $GPIPE" >&2; exit 2; }
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    cd "$folder" || exit
}

# Writes so many lines of a text.
make_text() { for i in $(seq 1 "$1"); do echo "line $((i * 7919 % 10007)) of a text about nothing"; done; }
