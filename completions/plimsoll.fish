# fish completion for plimsoll. Made from cli/options.c by tools/generate.sh; do not edit.
complete -c plimsoll -f
complete -c plimsoll -n __fish_use_subcommand -a estimate -d 'peak GPU memory of training a model, and where it goes'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate' -F
complete -c plimsoll -n __fish_use_subcommand -a explain -d 'what is alive at the peak, and what would change it'
complete -c plimsoll -n '__fish_seen_subcommand_from explain' -F
complete -c plimsoll -n __fish_use_subcommand -a check -d 'a gate: exit code 0 when the job fits, 10 when it does not'
complete -c plimsoll -n '__fish_seen_subcommand_from check' -F
complete -c plimsoll -n __fish_use_subcommand -a fit -d 'the largest batch for a GPU, and the GPUs a job fits on'
complete -c plimsoll -n '__fish_seen_subcommand_from fit' -F
complete -c plimsoll -n __fish_use_subcommand -a evaluate -d 'an estimator against measured jobs'
complete -c plimsoll -n '__fish_seen_subcommand_from evaluate' -F
complete -c plimsoll -n __fish_use_subcommand -a gpus -d 'the catalogue of GPUs'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l batch -s b -x -d 'samples a step, for models exported with a dynamic batch'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l seq -s s -x -d 'sequence length, for models exported with a dynamic one'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l precision -s p -x -a 'as-exported fp32 tf32 bf16 fp16 amp-bf16 amp-fp16' -d 'type of weights and arithmetic; amp- is autocast over fp32 weights'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l optimizer -s o -x -a 'sgd sgd-decay sgd-fused sgd-momentum sgd-momentum-decay sgd-momentum-fused sgd-nesterov adam adam-decay adam-fused adam-single adamw adamw-amsgrad adamw-fused adamw-single rmsprop rmsprop-centered adagrad adagrad-fused adadelta adamax nadam radam adafactor asgd rprop lion muon none' -d 'one of torch.optim\'s optimizers, or lion, with its defaults; none: no training'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l loss -s l -x -a 'auto ce mse own none' -d 'loss put on the model\'s output; own: the model returns it; auto: own for a scalar, else ce'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l checkpoint -s c -d 'activation checkpointing of the repeated blocks'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l accumulate -s a -x -d 'backward passes before each optimizer step, 1 to 4096'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l channels-last -d 'model and images in channels_last memory format'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l cudnn-benchmark -d 'torch.backends.cudnn.benchmark is on'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l alloc-conf -x -d 'PYTORCH_CUDA_ALLOC_CONF of the job'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit' -l parallel -x -d 'one rank of N: ddp:N, or fsdp2:N[:STAGE[:mp]] with stage 2 or 3, mp for bf16 parameters'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit evaluate' -l gpu -s g -x -a 'h200 h100-sxm h100-pcie h100-nvl b200 a100-40gb a100-80gb v100-16gb v100-32gb l40s l4 a10 a10g t4 a6000 rtx6000-ada rtx3060 rtx3060ti rtx3070 rtx3070ti rtx3080-10gb rtx3080-12gb rtx3080ti rtx3090 rtx3090ti rtx4060 rtx4060ti-8gb rtx4060ti-16gb rtx4070 rtx4070super rtx4070ti rtx4070tisuper rtx4080 rtx4080super rtx4090 rtx5060ti-16gb rtx5070 rtx5070ti rtx5080 rtx5090' -d 'the card; plimsoll gpus lists them'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit evaluate' -l estimator -s e -x -a 'sim' -d 'how the peak is found'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain' -l timeline -s t -r -F -d 'write the memory of the three steps to FILE, a picture (.svg) or numbers (.csv)'
complete -c plimsoll -n '__fish_seen_subcommand_from fit' -l most -s m -x -d 'largest batch to try'
complete -c plimsoll -n '__fish_seen_subcommand_from evaluate' -l graphs -s G -r -F -d 'folder of the jobs\' graphs (needed)'
complete -c plimsoll -n '__fish_seen_subcommand_from evaluate' -l threads -x -d 'jobs estimated at a time, 1 to 256'
complete -c plimsoll -n '__fish_seen_subcommand_from evaluate' -l csv -r -F -d 'write one line a job to FILE'
complete -c plimsoll -n '__fish_seen_subcommand_from evaluate' -l scatter -r -F -d 'write a picture of predicted against measured peaks to FILE (.svg)'
complete -c plimsoll -n '__fish_seen_subcommand_from estimate explain check fit evaluate gpus' -l json -s j -d 'print one JSON object instead of text'
complete -c plimsoll -l help -s h -d 'print this help'
complete -c plimsoll -l version -s V -d 'print the version'
