#!/usr/bin/env bash
# Models that also read what others translate, of both directions, and their ensemble (data
# diversification, Nguyen et al., 2020, https://arxiv.org/abs/1911.01986):
#
#   recipes/multi30k_en_de/diversified.sh DATA RUNS [FLAG...]
#
# DATA has train and val, each with .en and .de, plain or .gz. Into RUNS come `forward` and
# `backward`, models of the two directions, and for each of the SEEDS (1 2 3) `mixed1`, which reads
# the original pairs and the translations of both, and `seed1`, which goes on from it with the
# original pairs alone. The FLAGs, such as --steps 5600, are of the trainings that start from
# nothing, MIXED_FLAGS and LAST_FLAGS of the two of a seed. The same command after a break goes on.
# The test set is not read.
set -euo pipefail

data=${1:?the folder of the text} runs=${2:?the folder of the runs}
flags=("${@:3}")
python=${PYTHON:-python}
read -ra seeds <<<"${SEEDS:-1 2 3}"
read -ra mixed_flags <<<"${MIXED_FLAGS:-}"
read -ra last_flags <<<"${LAST_FLAGS:---learning-rate-scale 0.04 --warmup-steps 300 --steps 720 --save-every 60}"

of() { # the file of a part and a language
  if [[ -e $data/$1 ]]; then echo "$data/$1"; else echo "$data/$1.gz"; fi
}
english=$(of train.en) german=$(of train.de) dev_english=$(of val.en) dev_german=$(of val.de)
dev=(--dev-source "$dev_english" --dev-target "$dev_german")

train() { # RECIPE RUN FLAG...
  if [[ ! -e $2/scores.json ]]; then
    "$python" -m "recipes.$1.train" --run "$2" --resume "${@:3}"
  fi
}

mkdir -p "$runs"
train multi30k_en_de "$runs/forward" --data "$data" --no-test "${flags[@]}"
train translate_text "$runs/backward" --settings "$runs/forward/settings.json" \
  --source "$german" --target "$english" --dev-source "$dev_german" --dev-target "$dev_english" "${flags[@]}"
if [[ ! -e $runs/synthetic.en ]]; then
  "$python" -m keras_transformer translate "$runs/backward" \
    --input "$german" --output "$runs/synthetic.en"
fi
ensemble=()
for seed in "${seeds[@]}"; do
  train distilled "$runs/mixed$seed" --seed "$seed" --teacher "$runs/forward" \
    --source "$english" --target "$german" "${dev[@]}" \
    --mix-original 1 --mix "$runs/synthetic.en" "$german" 1 \
    --num-encoder-layers 4 --num-decoder-layers 4 --dropout 0.3 --no-exports \
    "${flags[@]}" "${mixed_flags[@]}"
  train translate_text "$runs/seed$seed" --from "$runs/mixed$seed" \
    --source "$english" --target "$german" "${dev[@]}" "${last_flags[@]}"
  ensemble+=("$runs/seed$seed")
done
"$python" -m keras_transformer tune "${ensemble[@]}" --dry-run --beam-sizes 5 \
  --source "$dev_english" --reference "$dev_german" --tokenize none
