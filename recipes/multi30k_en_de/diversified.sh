#!/usr/bin/env bash
# Models that also read what others translate, of both directions, and their ensemble (data
# diversification, Nguyen et al., 2020, https://arxiv.org/abs/1911.01986):
#
#   recipes/multi30k_en_de/diversified.sh DATA RUNS [FLAG...]
#
# DATA has train and val, each with .en and .de, plain or .gz. Into RUNS come `forward` and
# `backward`, models of the two directions, and their five best translations of the training text.
# Each of the SEEDS (1 2 3) has a choice of its own among these, so that the models differ: `mixed1`
# reads the original pairs and the translations of both, and `seed1` goes on from it with the
# original pairs alone. The FLAGS, such as --steps 5600, are of the trainings that start from
# nothing, MIXED_FLAGS and LAST_FLAGS of the two of a seed. The same command after a break goes on.
# The test set is not read.
set -euo pipefail

data=${1:?the folder of the text} runs=${2:?the folder of the runs}
flags=("${@:3}")
python=${PYTHON:-python}
read -ra seeds <<<"${SEEDS:-1 2 3}"
read -ra mixed_flags <<<"${MIXED_FLAGS:-}"
read -ra last_flags <<<"${LAST_FLAGS:---learning-rate-scale 0.04 --warmup-steps 300 --steps 500 --save-every 50}"
# By seed, and again from the fourth on.
forward_choices=(best sentence-bleu random) backward_choices=(best random sentence-bleu)

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

translate() { # RUN INPUT OUTPUT
  if [[ ! -e $3 ]]; then
    "$python" -m keras_transformer translate "$1" --beam-size 5 --n-best 5 --input "$2" --output "$3"
  fi
}

choose() { # WAY SEED REFERENCE NBEST OUTPUT
  if [[ ! -e $5 ]]; then
    "$python" -m recipes.distilled.choose "$4" "$5" --reference "$3" --by "$1" --seed "$2" --tokenize none
  fi
}

mkdir -p "$runs"
train multi30k_en_de "$runs/forward" --data "$data" --no-test "${flags[@]}"
of_forward=(--settings "$runs/forward/settings.json" --tokenizer "$runs/forward/tokenizer.model")
train translate_text "$runs/backward" "${of_forward[@]}" \
  --source "$german" --target "$english" --dev-source "$dev_german" --dev-target "$dev_english" "${flags[@]}"
translate "$runs/forward" "$english" "$runs/forward.nbest"
translate "$runs/backward" "$german" "$runs/backward.nbest"
ensemble=()
for seed in "${seeds[@]}"; do
  way=$(((seed - 1) % 3))
  choose "${forward_choices[way]}" "$seed" "$german" "$runs/forward.nbest" "$runs/forward$seed.de"
  choose "${backward_choices[way]}" "$seed" "$english" "$runs/backward.nbest" "$runs/backward$seed.en"
  train translate_text "$runs/mixed$seed" --seed "$seed" "${of_forward[@]}" \
    --source "$english" --target "$german" "${dev[@]}" \
    --mix "$english" "$runs/forward$seed.de" 1 --mix "$runs/backward$seed.en" "$german" 1 \
    --dropout 0.3 "${flags[@]}" "${mixed_flags[@]}"
  train translate_text "$runs/seed$seed" --from "$runs/mixed$seed" \
    --source "$english" --target "$german" "${dev[@]}" "${last_flags[@]}"
  ensemble+=("$runs/seed$seed")
done
"$python" -m keras_transformer tune "${ensemble[@]}" --dry-run --beam-sizes 5 \
  --source "$dev_english" --reference "$dev_german" --tokenize none
