# Ctrl-C, SIGTERM and SIGKILL of the launcher: no process stays behind.
. "$(dirname "$0")/lib.sh"

make_data 2000
make_job 'epochs: 100000'

for signal in INT TERM KILL; do
    # a background job of a script ignores SIGINT: start it as a terminal would
    env --default-signal=INT,TERM "$verbena" train job.yaml --ps 2 --workers 2 >out.log 2>err.log &
    launcher=$!
    wait_for 30 'the first data epoch' grep -q '^epoch' out.log
    [ "$(ours | wc -l)" -ge 5 ] || fail "only $(ours | wc -l) processes run"
    kill -$signal $launcher
    exit_of $launcher 6
    case $signal in
    INT) want=130 ;;
    TERM) want=143 ;;
    KILL) want=137 ;;
    esac
    [ "$code" = $want ] || fail "SIG$signal: exit $code, not $want"
    none_left
done
echo 'nothing stays behind'
