# Sourced by setup.sh and build.sh: runs a long command, and says what it is doing or why it cannot.
watch_seconds=15 # between the lines of progress, where there is no terminal

say() { printf 'attest: %s\n' "$*" >&2; }

demand_writable() { # demand_writable CHECKOUT FOLDER: makes a folder of its build/, or ends
  { mkdir -p "$2" && [ -w "$2" ] && : >>"$1/build/lock"; } 2>/dev/null && return
  say "$2 cannot be written, so nothing can be built there:" \
    "make $1/build writable, or build in a copy of the checkout"
  exit 5
}

# progress_of LOG SECONDS: "57/180, about 3 min left" from ninja's last "[57/180]" in the log; else the seconds so far.
progress_of() {
  local last finished total left
  last=$(tail -c 4000 "$1" 2>/dev/null | grep -aoE '^\[[0-9]+/[0-9]+\]' | tail -n 1) || true
  if [ -z "$last" ]; then
    echo "$2 s"
    return
  fi
  last=${last#[} last=${last%]}
  finished=${last%/*} total=${last#*/}
  left=$(($2 * (total - finished) / (finished > 0 ? finished : 1)))
  if [ "$finished" -ge "$total" ]; then
    echo "$last"
  elif [ "$2" -lt 10 ] || [ $((finished * 8)) -lt "$total" ]; then # too early to tell
    echo "$last"
  elif [ $left -ge 90 ]; then
    echo "$last, about $(((left + 30) / 60)) min left"
  else
    echo "$last, about $left s left"
  fi
}

# watch WHAT LOG COMMAND...: runs the command into the log. On a terminal one line is kept up to date, elsewhere a line
# appears every watch_seconds. A command that ends within 2 s is not mentioned. Ctrl-C ends the command, too.
watch() {
  local what=$1 log=$2 started=$SECONDS next=$((SECONDS + 2)) shown= terminal= status=0
  shift 2
  if [ -t 2 ] && [ "${TERM-dumb}" != dumb ]; then terminal=1; fi
  : >"$log"
  "$@" >"$log" 2>&1 &
  local command=$!
  trap "kill $command 2>/dev/null; wait $command || true; exit 130" INT TERM
  while kill -0 $command 2>/dev/null; do
    if [ $SECONDS -ge $next ]; then
      if [ -n "$terminal" ]; then
        printf '\r\033[Kattest: %s: %s' "$what" "$(progress_of "$log" $((SECONDS - started)))" >&2
        next=$((SECONDS + 1))
      elif [ -z "$shown" ]; then
        say "$what ..."
        next=$((SECONDS + watch_seconds))
      else
        say "$what: $(progress_of "$log" $((SECONDS - started)))"
        next=$((SECONDS + watch_seconds))
      fi
      shown=1
    fi
    sleep 0.1
  done
  wait $command || status=$?
  trap - INT TERM
  if [ -n "$terminal" ] && [ -n "$shown" ]; then printf '\r\033[K' >&2; fi
  if [ $status != 0 ]; then
    say "$what failed after $((SECONDS - started)) s"
  elif [ -n "$shown" ]; then
    say "$what took $((SECONDS - started)) s"
  fi
  return $status
}
