#!/usr/bin/env bash
# Shows how far a build is: ninja ... | build_progress.sh PLAN
# PLAN is the output of a dry run (ninja -n); both runs have NINJA_STATUS='[%f/%t %e] '. On a terminal one line is updated,
# elsewhere a line is printed for every tenth of the work. What compilers print is passed on in full.
set -u
plan=$1
status='^\[([0-9]+)/([0-9]+) ([0-9]+)[0-9.]*\] (.*)'

# Rough seconds of one core for a step of the build.
seconds_for() {
  case $1 in
    "Building CUDA object "*) cost=90 ;;
    "Building CXX object "*/cmake_pch.*) cost=20 ;;
    "Building CXX object "*/Unity/*) cost=14 ;;
    "Building CXX object "*) cost=6 ;;
    Linking*) cost=2 ;;
    *) cost=0 ;;
  esac
}

as_text() {  # SECONDS
  if [ "$1" -lt 45 ]; then echo "less than a minute"; else echo "about $((($1 + 30) / 60)) min"; fi
}

total=0
while IFS= read -r line; do
  [[ $line =~ $status ]] || continue
  seconds_for "${BASH_REMATCH[4]}"
  total=$((total + cost))
done <"$plan"

cores=$(nproc)
terminal=no
[ -t 1 ] && terminal=yes
finished=0 tenth=0 open_line=no

show() {  # STEP STEPS ELAPSED
  # The pace is that of the build so far; at its start, the seconds above count as a minute of it.
  local pace_work=$((finished + 60 * cores)) pace_time=$(($3 + 60))
  local text now
  text="building $1/$2, $(as_text $(((total - finished) * pace_time / pace_work))) left"
  now=$((10 * finished / total))
  if [ $terminal = yes ]; then
    printf '\r\033[K%s' "$text"
    open_line=yes
  elif [ $now -gt $tenth ]; then
    tenth=$now
    echo "$text"
  fi
}

[ $total -gt 20 ] && echo "building: $(as_text $((total / cores))) on $cores cores"
while IFS= read -r line; do
  if [[ $line =~ $status ]]; then
    seconds_for "${BASH_REMATCH[4]}"
    finished=$((finished + cost))
    [ $total -gt 0 ] && show "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "${BASH_REMATCH[3]}"
  elif [ "$line" != "ninja: no work to do." ]; then
    [ $open_line = yes ] && echo
    open_line=no
    printf '%s\n' "$line"
  fi
done
[ $open_line = yes ] && printf '\r\033[K'
exit 0
