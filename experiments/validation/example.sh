#!/usr/bin/env bash
# Which delta of ffd is safe for a Hugging Face model: captures prompts part by part, studies each part, and judges all
# (EXAMPLE.md).
set -euo pipefail

if [ $# -lt 3 ]; then
  cat >&2 <<USAGE
usage: ${0##*/} MODEL PROMPTS.jsonl FOLDER [OPTION OF attest capture]...
  MODEL is a checkpoint's folder or a name on the hub; every line of PROMPTS.jsonl has an "answer" and "spans"
  environment: PART=15 prompts per dump (dumps are removed once studied), QUERIES=4 of the answer, DELTA=1:16:0.25,
  BUDGET=60% of the bytes of dense attention, TARGETS='span_recall.min>=0.99 recall>=0.999', ATTEST=./attest
USAGE
  exit 2
fi
model=$1 prompts=$2 folder=$3
shift 3
attest=${ATTEST:-$(dirname "$0")/../../attest}
targets=()
for target in ${TARGETS:-span_recall.min>=0.99 recall>=0.999}; do targets+=(--target "$target"); done

mkdir -p "$folder"
rm -f "$folder"/part.[0-9][0-9][0-9].jsonl # and no prompts.llama.jsonl, which may lie there
split -l "${PART:-15}" -d -a 3 --additional-suffix=.jsonl "$prompts" "$folder/part."
results=()
for part in "$folder"/part.[0-9][0-9][0-9].jsonl; do
  name=$(basename "$part" .jsonl) && name=${name#part.}
  study=$folder/study.$name.h5 dump=$folder/dump.$name.h5 note=$folder/made_from.$name
  options=(--answer "${QUERIES:-4}" --spans "$@") grid=(--selector ffd --delta "${DELTA:-1:16:0.25}")
  made_from=$(printf '%q ' "$model" "${options[@]}" "${grid[@]}" && sha256sum <"$part")
  files=("$folder"/*."$name".h5*)
  if [ -e "${files[0]}" ] && [ "$made_from" != "$(cat "$note" 2>&1)" ]; then
    echo "${0##*/}: ${files[0]} is of another model, other prompts or options: name another FOLDER or empty it" >&2
    exit 2
  fi
  echo "$made_from" >"$note"
  # A script that was interrupted goes on. A dump captured anew would be another one, which --resume refuses.
  if [ ! -e "$study" ]; then
    [ -e "$dump" ] || "$attest" capture "$model" "$part" -o "$dump" "${options[@]}"
    "$attest" run "$dump" -o "$study" "${grid[@]}" --resume
  fi
  rm -f "$dump"
  results+=("$study")
done

# judge NAME OPTION... prints a verdict and keeps it. Exit 3 says that nothing is certified, which is an answer, too.
judge() {
  local name=$1 status=0
  shift
  rm -f "$folder/$name.json"
  echo "== $name"
  "$attest" validate "${results[@]}" "${targets[@]}" -o "$folder/$name.json" --force "$@" > "$folder/$name.txt" ||
    status=$?
  cat "$folder/$name.txt"
  [ "$status" = 0 ] || [ "$status" = 3 ] || exit "$status"
}
judge model
judge layer --per layer
judge kv_head --per kv_head
judge io_budget --per kv_head --io-budget "${BUDGET:-60%}"
