# verbena links: one line per link, what it is and why not faster; nothing is trained. A required fabric.
. "$(dirname "$0")/lib.sh"

make_data 500
make_job 'epochs: 1000'

"$verbena" links job.yaml --workers 2 --ps 2 >out.log 2>err.log || fail "exit $?"
[ "$(wc -l <out.log)" = 4 ] || fail 'a line per link'
[ "$(grep -c '^link /job:worker/task:[01] - /job:ps/task:[01]: map, ' out.log)" = 4 ] || fail 'map'

"$verbena" links job.yaml --workers 5 --ps 5 >out.log 2>err.log || fail "exit $?"
[ "$(wc -l <out.log)" = 17 ] || fail 'many links are shortened'
tail -n 1 out.log | grep -q '^and 9 links more: 9 map (--json has all)$' || fail 'what is left out'

"$verbena" links job.yaml --workers 5 --ps 5 --json >out.log 2>err.log || fail "exit $?"
[ "$(grep -c '^{"event":"link",.*"way":"map"' out.log)" = 25 ] || fail '--json has all'

"$verbena" links job.yaml --transport tcp --json >out.log 2>err.log || fail "exit $?"
for member in '"task":"/job:worker/task:0"' '"peer":"/job:ps/task:0"' '"way":"tcp"' '"device":"lo"' \
    '"local":"127.0.0.1:[0-9]*"' '"remote":"127.0.0.1:[0-9]*"' '"gid":null' '"mtu":[0-9]*' '"protocol":"eager' \
    '"rails":\[{"name":"lo","sent_bytes":0}\]' '"why":"--transport tcp"'; do
    grep -q "$member" out.log || fail "no $member"
done

# mapped memory satisfies who requires RDMA between hosts
"$verbena" links job.yaml --require-rdma >out.log 2>err.log || fail "exit $?"
if [ ! -d /sys/class/infiniband ]; then
    if "$verbena" links job.yaml --transport rdma --ps 2 --workers 2 >out.log 2>err.log; then fail 'no RDMA'
    else code=$?; fi
    [ $code = 6 ] && grep -q 'no RDMA between /job:.*: no RDMA device on /job:' err.log || fail "without RDMA: exit $code"
fi
none_left
echo 'links say what they are'
