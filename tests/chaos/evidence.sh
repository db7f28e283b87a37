# What evidence.py does where it is given no manner, by the shell alone.
#
#     bash evidence.sh FILE SECONDS FAIL_BELOW BEHIND_NS LINE
#
# BEHIND_NS: how far CLOCK_BOOTTIME, which a shell cannot read, is behind the wall clock. LINE: as in evidence.py.
exec 3>>"$1"
behind=$4 line=$5 of=("$ETCRON_RUN_ID" "$ETCRON_FENCE" "$ETCRON_WORKER" $$)

say() {
  us=${EPOCHREALTIME/[.,]/}
  printf "$line\n" "$1" "${of[@]}" $((us * 1000 - behind)) $((us / 1000)) "$2" "$3" >&3
}

say start null null
if [ "$2" != 0.0 ]; then
  printf -v lives_us '%.0f' "$2e6"
  until=$((us + lives_us))
  exec {nothing}<> <(:) # a pipe without a writer: a read of it is a sleep
  while left=$((until - us)) && ((left > 0)); do
    ((left > 25000)) && left=25000
    printf -v seconds '0.%06d' "$left"
    read -r -t "$seconds" -u "$nothing"
    say last null null
  done
fi
exit_code=$((${ETCRON_ATTEMPT:-1} < $3))
say end "$exit_code" 0
exit "$exit_code"
