"""MkDocs hook: adds a description and search terms to each page.

Search engines show the description below the page's title. The words are search terms that do not
occur in the headings, such as synonyms and names of other programs. The site search ranks them
above the text of any page and shows them below a result.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Head:
    """A description of a page in one sentence of 50 to 160 characters, and its search terms."""

    description: str
    words: tuple[str, ...] = ()


HEADS = {
    "index.md": Head(
        "Train, fine-tune, use and deploy translation models with the Transformer of Attention Is "
        "All You Need, in Keras 3 on TensorFlow, JAX and PyTorch."
    ),
    "tutorials/get_started.md": Head(
        "Install keras_transformer on Linux, then translate with a pretrained model, train your "
        "own, or read the paper next to its code.",
        ("install", "installation", "pip", "setup", "requirements", "quickstart"),
    ),
    "the_paper.md": Head(
        "Attention Is All You Need, section by section: each equation with figures, numbers and "
        "the lines of code that implement it.",
    ),
    "tutorials/language_pair.md": Head(
        "Tutorial: train a translator for two languages from two text files in about an hour on "
        "two CPU cores, score it and open it in a web app.",
        ("language pair",),
    ),
    "tutorials/fine_tune.md": Head(
        "Tutorial: fine-tune a pretrained translation model on a few thousand pairs of your own "
        "text, and measure what it learns and forgets.",
        ("finetune", "fine-tuning", "adaptation", "domain", "transfer learning"),
    ),
    "tutorials/terms.md": Head(
        "Tutorial: translate with a glossary of your own terms, and keep the variables of messages "
        "unchanged, with a small English-Portuguese model.",
        ("terminology", "glossaries", "placeholders", "constrained decoding"),
    ),
    "tutorials/web_page.md": Head(
        "Tutorial: translate an HTML page, with every tag around the words that it belongs to, on "
        "the command line and in Python.",
        ("html", "website", "tags"),
    ),
    "tutorials/text_classifier.md": Head(
        "Tutorial: classify movie reviews with a Keras model that has the Transformer's encoder "
        "layers, from raw text to a saved model.",
        ("sentiment", "classification", "imdb"),
    ),
    "tutorials/docker_compose.md": Head(
        "Tutorial: serve a translation model over HTTP with Docker Compose and TensorFlow Serving, "
        "and deploy new versions without downtime.",
        ("docker", "container", "deploy", "production"),
    ),
    "tutorials/android_app.md": Head(
        "Tutorial: build an Android app that translates without a network, with a LiteRT model, "
        "a tokenizer and three Java files.",
        ("mobile app", "phone", "java"),
    ),
    "notebooks/layers_notebook.md": Head(
        "A notebook for Colab: use the Transformer's layers in a classifier, a language model and "
        "a translator of your own.",
    ),
    "training.md": Head(
        "Train a translation model: the command and its flags, log files, checkpoints, resuming, "
        "checkpoint averaging, fine-tuning and LoRA.",
        (
            "train",
            "training",
            "batch size",
            "learning rate schedule",
            "label smoothing",
            "lora",
            "nan loss",
            "hyperparameters",
        ),
    ),
    "data.md": Head(
        "Prepare parallel text for training: read files, filter and deduplicate pairs, tokenize "
        "once, mix corpora and plan batches.",
    ),
    "text.md": Head(
        "Train SentencePiece vocabularies of BPE or unigram subwords, choose their size, and "
        "convert text to token ids and back.",
        ("tokenizer", "vocabulary size", "subword sampling", "bpe"),
    ),
    "scaling.md": Head(
        "Train on several GPUs and machines, with Ray, Slurm or Kubernetes: flags, memory, "
        "network traffic, disk space and corpora of any size.",
        ("gpus", "multi-gpu", "distributed"),
    ),
    "jax.md": Head(
        "Run keras_transformer on JAX or PyTorch instead of TensorFlow: installation, which "
        "features work on each backend, and speed.",
    ),
    "keras/tools.md": Head(
        "Use Keras's quantization, LoRA, regularizers, rematerialization, mixed precision and "
        "ONNX export with these Transformer layers.",
    ),
    "translating.md": Head(
        "Translate text with a trained model: beam search, length penalty, sampling, ensembles, "
        "BLEU scores, alignments and back-translation.",
        (
            "bleu",
            "sacrebleu",
            "evaluate",
            "evaluation",
            "beam size",
            "sampling",
            "random sampling",
            "translate file",
            "repetition",
        ),
    ),
    "opus_mt.md": Head(
        "Import pretrained translation models from OPUS-MT, Marian, Firefox Translations, "
        "CTranslate2 and Argos Translate, and use or fine-tune them.",
        (
            "pretrained",
            "helsinki-nlp",
            "bergamot",
            "multilingual",
            "browser",
            "webassembly",
            "offline",
        ),
    ),
    "app.md": Head(
        "Open a trained model in the browser: a web app and a JSON interface for translations, "
        "alternatives, word alignments and parse trees.",
        ("rest api", "gui", "demo"),
    ),
    "attention.md": Head(
        "See what each attention head looks at: an interactive page, a figure or arrays, for "
        "your own model and your own sentence.",
        ("visualization", "visualize", "heatmap"),
    ),
    "parsing.md": Head(
        "Train a constituency parser as in the paper: treebanks as sequences, constrained "
        "decoding, and scores on a test set.",
        ("parse trees", "treebank", "constituency"),
    ),
    "evalb.md": Head(
        "Score parse trees with the figures of EVALB, the standard program for constituency "
        "parsing: bracketing recall, precision and F1.",
    ),
    "serving.md": Head(
        "Serve a translation model over REST and gRPC with TensorFlow Serving: export, signatures, "
        "Docker, batching, versions and clients.",
        ("tensorflow serving", "savedmodel", "rest api", "grpc", "inference server"),
    ),
    "models.md": Head(
        "The translation models that come with the package, with their languages, size, BLEU, "
        "speed and license, and how to use them by name.",
        ("pretrained", "presets", "offline", "download"),
    ),
    "litert.md": Head(
        "Export a translation model to LiteRT (TensorFlow Lite) for Android, iOS and small "
        "computers, with beam search in float32, float16 or int8.",
        ("tflite", "tensorflow lite", "quantize", "quantization", "ios", "mobile", "edge"),
    ),
    "ctranslate2.md": Head(
        "Export a trained model to CTranslate2, a fast C++ engine for CPUs and GPUs, in float32, "
        "float16, int16 or int8.",
        ("quantize", "quantization"),
    ),
    "saved_models/README.md": Head(
        "The folder for exported models: one directory per model with numbered versions, as "
        "TensorFlow Serving expects them.",
    ),
    "command_line.md": Head(
        "Reference for the keras-transformer command: all verbs, arguments, flags, choices and "
        "defaults.",
        ("cli", "flags", "options"),
    ),
    "recipes.md": Head(
        "Complete training scripts to run, read and change: captions, news, number words, "
        "parsing, distillation, and how to write your own.",
    ),
    "recipes/adapt/README.md": Head(
        "Recipe: adapt a pretrained model to the words of a domain, with BLEU before and after on "
        "the domain and on general text.",
    ),
    "recipes/number_words/README.md": Head(
        "Recipe: the two-minute demo, a small Transformer that translates English number words "
        "into German.",
    ),
    "recipes/multi30k_en_de/README.md": Head(
        "Recipe: English-German image captions (Multi30k), from the data to published BLEU scores "
        "on two CPU cores.",
    ),
    "recipes/translate_text/README.md": Head(
        "Recipe: train on any two text files whose lines belong together, with every setting to "
        "read and change.",
    ),
    "recipes/wsj_parsing/README.md": Head(
        "Recipe: a constituency parser of English, trained on the Wall Street Journal's trees as "
        "in section 6.3 of the paper.",
    ),
    "recipes/table3/README.md": Head(
        "Recipe: train the variations of the base model in the paper's Table 3, and compare the "
        "results with the paper's.",
    ),
    "recipes/distilled/README.md": Head(
        "Recipe: distill a large model or an ensemble into a small student that translates several "
        "times as fast.",
        ("knowledge distillation", "student", "teacher"),
    ),
    "recipes/wmt14_en_de/README.md": Head(
        "Recipe: the paper's base and big models on WMT 2014 English-German, with newstest2014 as "
        "the test set.",
    ),
    "recipes/wmt14_en_fr/README.md": Head(
        "Recipe: the paper's models on WMT 2014 English-French, and how its settings differ from "
        "English-German.",
    ),
    "layers.md": Head(
        "Use the Transformer's Keras layers in your own models: attention, encoder and decoder "
        "layers, embeddings, masks and positions.",
        ("language model",),
    ),
    "keras/coming_from_keras_hub.md": Head(
        "Names of KerasHub and Hugging Face Transformers, and what the same layers, arguments and "
        "methods are called here.",
        ("hugging face", "huggingface", "transformers"),
    ),
    "keras/coming_from_pipeline.md": Head(
        'Replace pipeline("translation") of Hugging Face Transformers: each old call next to the '
        "new one, with the same models.",
        ("hugging face", "huggingface", "transformers"),
    ),
    "security.md": Head(
        "What keras_transformer checks in untrusted models, texts and archives, what it does not "
        "check, and how this is tested.",
    ),
    "glossary.md": Head(
        "Terms of machine translation and of this package, each explained in a sentence: alpha, "
        "beam, BLEU, checkpoint, subword, token and more.",
    ),
    "faq.md": Head(
        "Short answers to frequent questions about installing, training, memory, quality, speed "
        "and deployment.",
        ("out of memory", "oom"),
    ),
    "api/layers.md": Head(
        "API reference for the Keras layers: attention, encoder, decoder, embeddings, masks, "
        "feed-forward networks and positions.",
    ),
    "api/models.md": Head(
        "API reference for the models: build_transformer, build_language_model, their options, "
        "presets and ensembles.",
    ),
    "api/decoding.md": Head(
        "API reference for decoding: beam search, greedy decoding, sampling, search options and "
        "constraints on outputs.",
    ),
    "api/losses.md": Head(
        "API reference for the label-smoothed loss, the metrics, the optimizers and the learning-"
        "rate schedule.",
    ),
    "api/text.md": Head(
        "API reference for the SentencePiece tokenizer, line sampling and lexical shortlists.",
    ),
    "api/data.md": Head(
        "API reference for parallel text, filters, tokenized corpora, batch plans and the input of "
        "Keras's fit.",
    ),
    "api/training.md": Head(
        "API reference for training runs: settings, callbacks, checkpoints, devices, fine-tuning "
        "and training cost.",
    ),
    "api/translation_training.md": Head(
        "API reference for the steps that train a translator: texts, tokenizers, batches, model, "
        "averaging and report.",
    ),
    "api/translator.md": Head(
        "API reference for Translator: translate, score and align sentences with a run, an "
        "ensemble or an imported model.",
    ),
    "api/parsing.md": Head(
        "API reference for the parser, trees, their linearization and EVALB scores.",
    ),
    "api/attention.md": Head(
        "API reference for attention maps: weights of every layer and head as arrays, figures and "
        "pages.",
    ),
    "api/interop.md": Head(
        "API reference for importing models from Marian, OPUS-MT, Firefox Translations and "
        "CTranslate2.",
    ),
    "api/export.md": Head(
        "API reference for exports to SavedModel, LiteRT, CTranslate2, Marian, Bergamot and web "
        "pages, and for the classes that run them.",
    ),
    "api/evaluation.md": Head(
        "API reference for BLEU, chrF, exact match, perplexity, paired bootstrap tests and tuning "
        "of the length penalty.",
    ),
    "api/errors.md": Head(
        "API reference for the exceptions and warnings that a program can catch.",
    ),
    "results.md": Head(
        "Measured quality, speed, memory use and robustness, with conditions, dates and links to "
        "the notes that show each measurement.",
        ("benchmark", "benchmarks", "speed"),
    ),
    "lab/multi30k.md": Head(
        "Lab note: BLEU on Multi30k English-German over seeds, settings, distillation, "
        "ensembles and optimizers.",
    ),
    "lab/recipes.md": Head(
        "Lab note: results on Tatoeba English-German, number words and parsing, and "
        "results of a distilled student.",
    ),
    "lab/lora.md": Head(
        "Lab note: LoRA compared with full fine-tuning on captions, program messages and help "
        "pages, by BLEU and forgetting.",
    ),
    "lab/paper_tables.md": Head(
        "Lab note: the paper's Table 1 measured, rows of its Table 3 trained on a small scale, and "
        "the sizes of its models.",
    ),
    "lab/exports.md": Head(
        "Lab note: size, speed and BLEU of exports in float32, float16 and int8, and tests "
        "that imported models give identical output.",
    ),
    "lab/speed.md": Head(
        "Lab note: decoding and training speed compared with CTranslate2, Hugging Face, PyTorch, "
        "Keras and JoeyNMT.",
    ),
    "lab/scaling.md": Head(
        "Lab note: reading speed of large corpora, training on several replicas, and the overhead "
        "of a Ray cluster.",
    ),
    "lab/gpu.md": Head(
        "Lab note: step times, memory and decoding speed on H100 and H200 GPUs, with what was "
        "tried to improve them.",
    ),
    "lab/terms.md": Head(
        "Measurements of word alignments, of tags in translated sentences, and of hostile "
        "documents, with commands and missed targets.",
    ),
    "lab/robustness.md": Head(
        "Lab note: interrupted training, flipped bits, fuzzed input, loops in outputs, and the "
        "web app under load for two hours.",
    ),
    "architecture.md": Head(
        "Where to find things in the code of keras_transformer: the files to read first, the path "
        "of a text, and a map of the folders.",
    ),
    "contributing.md": Head(
        "How to set up a development environment, run the tests, follow the house rules and "
        "extend keras_transformer.",
    ),
    "changelog.md": Head(
        "What changed in each version of keras_transformer, with the newest changes first.",
        ("release notes", "new features"),
    ),
    "project/compatibility.md": Head(
        "Supported versions of Python, Keras, TensorFlow, JAX and PyTorch, operating systems, and "
        "the deprecation policy.",
        ("windows", "macos", "linux", "versions"),
    ),
    "project/roadmap.md": Head(
        "What is planned for keras_transformer, what is not, and how to propose a change.",
    ),
    "project/report_a_bug.md": Head(
        "How to report a bug in keras_transformer: what to include, and where to ask questions.",
        ("support",),
    ),
    "security_policy.md": Head(
        "How to report a vulnerability in keras_transformer privately, and which versions get "
        "fixes.",
    ),
}


def on_page_markdown(markdown, page, config, files):
    head = HEADS.get(page.file.src_uri)
    if head:
        page.meta.setdefault("description", head.description)
        page.meta.setdefault("tags", list(head.words))
    return markdown
