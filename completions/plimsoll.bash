# bash completion for plimsoll. Made from cli/options.c by tools/generate.sh; do not edit.
_plimsoll() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W "estimate explain check fit collocate place simulate convert evaluate train estimators gpus watch serve history --help --version" -- "$word")
        return
    fi
    case ${COMP_WORDS[1]}:$before in
    estimate:--batch|estimate:-b)
        return ;;
    explain:--batch|explain:-b|check:--batch|check:-b|collocate:--batch|collocate:-b|place:--batch|place:-b|convert:--batch|convert:-b)
        return ;;
    fit:--batch|fit:-b)
        return ;;
    estimate:--seq|estimate:-s)
        return ;;
    explain:--seq|explain:-s|check:--seq|check:-s|collocate:--seq|collocate:-s|place:--seq|place:-s|convert:--seq|convert:-s)
        return ;;
    fit:--seq|fit:-s)
        return ;;
    *:--task)
        mapfile -t COMPREPLY < <(compgen -W "causal masked seq2seq classify tokens segment detect ctc base image-text" -- "$word")
        return ;;
    *:--attention)
        mapfile -t COMPREPLY < <(compgen -W "sdpa eager flash2" -- "$word")
        return ;;
    *:--precision|*:-p)
        mapfile -t COMPREPLY < <(compgen -W "as-exported fp32 tf32 bf16 fp16 amp-bf16 amp-fp16" -- "$word")
        return ;;
    estimate:--optimizer|estimate:-o|explain:--optimizer|explain:-o|check:--optimizer|check:-o|fit:--optimizer|fit:-o|collocate:--optimizer|collocate:-o|place:--optimizer|place:-o)
        mapfile -t COMPREPLY < <(compgen -W "sgd sgd-decay sgd-fused sgd-momentum sgd-momentum-decay sgd-momentum-fused sgd-nesterov adam adam-8bit adam-decay adam-fused adam-single adamw adamw-8bit adamw-amsgrad adamw-fused adamw-single rmsprop rmsprop-centered adagrad adagrad-fused adadelta adamax nadam radam adafactor asgd rprop lion muon none" -- "$word")
        return ;;
    *:--loss|*:-l)
        mapfile -t COMPREPLY < <(compgen -W "auto ce mse own none" -- "$word")
        return ;;
    *:--train)
        return ;;
    *:--accumulate|*:-a)
        return ;;
    *:--alloc-conf)
        return ;;
    fit:--parallel)
        return ;;
    estimate:--parallel|explain:--parallel|check:--parallel|collocate:--parallel|place:--parallel)
        return ;;
    *:--load)
        mapfile -t COMPREPLY < <(compgen -W "full sharded" -- "$word")
        return ;;
    estimate:--gpu|estimate:-g|explain:--gpu|explain:-g|check:--gpu|check:-g|fit:--gpu|fit:-g|evaluate:--gpu|evaluate:-g|train:--gpu|train:-g)
        mapfile -t COMPREPLY < <(compgen -W "h200 h200-nvl gh200-96gb gh200-144gb h100-sxm h100-pcie h100-nvl h800-sxm h800-pcie h20 h20-141gb b200 b300 gb200 gb300 a100-40gb a100-64gb a100-80gb a800-80gb a40 a30 a16 a10 a10g a2 v100-16gb v100-32gb p100-16gb p40 l40s l40 l20 l4 t4 t4g rtxpro6000-blackwell rtxpro4500-blackwell rtxpro4000-blackwell rtx6000-ada rtx5000-ada rtx4500-ada rtx4000-ada rtx2000-ada a6000 a5500 a5000 a4500 a4000 a2000-12gb quadro-rtx8000 quadro-rtx6000 titanrtx titanv titanxp gtx1060-6gb gtx1070 gtx1080 gtx1080ti gtx1650 gtx1660ti rtx2060 rtx2060super rtx2070 rtx2070super rtx2080 rtx2080super rtx2080ti rtx3050-8gb rtx3060 rtx3060-8gb rtx3060ti rtx3070 rtx3070ti rtx3080-10gb rtx3080-12gb rtx3080ti rtx3090 rtx3090ti rtx4060 rtx4060ti-8gb rtx4060ti-16gb rtx4070 rtx4070super rtx4070ti rtx4070tisuper rtx4080 rtx4080super rtx4090 rtx4090d rtx5060 rtx5060ti-8gb rtx5060ti-16gb rtx5070 rtx5070ti rtx5080 rtx5090 rtx5090d rtx3050-laptop-4gb rtx3050-laptop-6gb rtx3050ti-laptop rtx3060-laptop rtx3070-laptop rtx3070ti-laptop rtx3080-laptop-8gb rtx3080-laptop-16gb rtx3080ti-laptop rtx4050-laptop rtx4060-laptop rtx4070-laptop rtx4080-laptop rtx4090-laptop rtx5060-laptop rtx5070-laptop rtx5070ti-laptop rtx5080-laptop rtx5090-laptop a100-40gb-1g.5gb a100-40gb-1g.10gb a100-40gb-2g.10gb a100-40gb-3g.20gb a100-40gb-4g.20gb a100-40gb-7g.40gb a100-80gb-1g.10gb a100-80gb-1g.20gb a100-80gb-2g.20gb a100-80gb-3g.40gb a100-80gb-4g.40gb a100-80gb-7g.80gb h100-sxm-1g.10gb h100-sxm-1g.20gb h100-sxm-2g.20gb h100-sxm-3g.40gb h100-sxm-4g.40gb h100-sxm-7g.80gb h100-nvl-1g.12gb h100-nvl-1g.24gb h100-nvl-2g.24gb h100-nvl-3g.47gb h100-nvl-4g.47gb gh200-96gb-1g.12gb gh200-96gb-1g.24gb gh200-96gb-2g.24gb gh200-96gb-3g.48gb gh200-96gb-4g.48gb h200-1g.18gb h200-3g.71gb h200-4g.71gb a30-1g.6gb a30-2g.12gb a30-4g.24gb rtxpro6000-blackwell-1g.24gb rtxpro6000-blackwell-2g.48gb" -- "$word")
        return ;;
    collocate:--gpu|collocate:-g)
        mapfile -t COMPREPLY < <(compgen -W "h200 h200-nvl gh200-96gb gh200-144gb h100-sxm h100-pcie h100-nvl h800-sxm h800-pcie h20 h20-141gb b200 b300 gb200 gb300 a100-40gb a100-64gb a100-80gb a800-80gb a40 a30 a16 a10 a10g a2 v100-16gb v100-32gb p100-16gb p40 l40s l40 l20 l4 t4 t4g rtxpro6000-blackwell rtxpro4500-blackwell rtxpro4000-blackwell rtx6000-ada rtx5000-ada rtx4500-ada rtx4000-ada rtx2000-ada a6000 a5500 a5000 a4500 a4000 a2000-12gb quadro-rtx8000 quadro-rtx6000 titanrtx titanv titanxp gtx1060-6gb gtx1070 gtx1080 gtx1080ti gtx1650 gtx1660ti rtx2060 rtx2060super rtx2070 rtx2070super rtx2080 rtx2080super rtx2080ti rtx3050-8gb rtx3060 rtx3060-8gb rtx3060ti rtx3070 rtx3070ti rtx3080-10gb rtx3080-12gb rtx3080ti rtx3090 rtx3090ti rtx4060 rtx4060ti-8gb rtx4060ti-16gb rtx4070 rtx4070super rtx4070ti rtx4070tisuper rtx4080 rtx4080super rtx4090 rtx4090d rtx5060 rtx5060ti-8gb rtx5060ti-16gb rtx5070 rtx5070ti rtx5080 rtx5090 rtx5090d rtx3050-laptop-4gb rtx3050-laptop-6gb rtx3050ti-laptop rtx3060-laptop rtx3070-laptop rtx3070ti-laptop rtx3080-laptop-8gb rtx3080-laptop-16gb rtx3080ti-laptop rtx4050-laptop rtx4060-laptop rtx4070-laptop rtx4080-laptop rtx4090-laptop rtx5060-laptop rtx5070-laptop rtx5070ti-laptop rtx5080-laptop rtx5090-laptop a100-40gb-1g.5gb a100-40gb-1g.10gb a100-40gb-2g.10gb a100-40gb-3g.20gb a100-40gb-4g.20gb a100-40gb-7g.40gb a100-80gb-1g.10gb a100-80gb-1g.20gb a100-80gb-2g.20gb a100-80gb-3g.40gb a100-80gb-4g.40gb a100-80gb-7g.80gb h100-sxm-1g.10gb h100-sxm-1g.20gb h100-sxm-2g.20gb h100-sxm-3g.40gb h100-sxm-4g.40gb h100-sxm-7g.80gb h100-nvl-1g.12gb h100-nvl-1g.24gb h100-nvl-2g.24gb h100-nvl-3g.47gb h100-nvl-4g.47gb gh200-96gb-1g.12gb gh200-96gb-1g.24gb gh200-96gb-2g.24gb gh200-96gb-3g.48gb gh200-96gb-4g.48gb h200-1g.18gb h200-3g.71gb h200-4g.71gb a30-1g.6gb a30-2g.12gb a30-4g.24gb rtxpro6000-blackwell-1g.24gb rtxpro6000-blackwell-2g.48gb" -- "$word")
        return ;;
    *:--gpus)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--sharing)
        mapfile -t COMPREPLY < <(compgen -W "slices mps" -- "$word")
        return ;;
    *:--cluster)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--trace)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    simulate:--sizes)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    simulate:--policy)
        return ;;
    place:--policy)
        mapfile -t COMPREPLY < <(compgen -W "exclusive pack spread interference" -- "$word")
        return ;;
    *:--max-slowdown)
        return ;;
    *:--max-jobs)
        return ;;
    place:--risk|simulate:--risk)
        return ;;
    *:--guess)
        return ;;
    *:--peak-after)
        return ;;
    *:--crashes)
        return ;;
    *:--backfill)
        return ;;
    *:--patience)
        return ;;
    *:--chart)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    estimate:--risk|explain:--risk|check:--risk|fit:--risk|collocate:--risk)
        return ;;
    *:--host-speed)
        return ;;
    *:--copy-gbps)
        return ;;
    estimate:--estimator|estimate:-e|explain:--estimator|explain:-e|check:--estimator|check:-e|fit:--estimator|fit:-e|collocate:--estimator|collocate:-e|place:--estimator|place:-e)
        mapfile -t COMPREPLY < <(compgen -W "hybrid sim bigru-transformer bigru-transformer-light transformer-only bigru-only transformer-bigru decision-tree random-forest adaboost xgboost extra-trees catboost lightgbm lightgbm-library gpumemnet-mlp gpumemnet-transformer gpumemnet-regression horus dnnmem llmem zero accelerate faketensor" -- "$word")
        return ;;
    evaluate:--estimator|evaluate:-e)
        mapfile -t COMPREPLY < <(compgen -W "hybrid sim bigru-transformer bigru-transformer-light transformer-only bigru-only transformer-bigru decision-tree random-forest adaboost xgboost extra-trees catboost lightgbm lightgbm-library gpumemnet-mlp gpumemnet-transformer gpumemnet-regression horus dnnmem llmem zero accelerate faketensor all" -- "$word")
        return ;;
    *:--model|*:-M)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--timeline|*:-t)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--snapshot)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--times)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--heatmap)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--most|*:-m)
        return ;;
    *:--jobs|*:-J)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--graphs|*:-G)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return ;;
    train:--out|train:-o)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    convert:--out|convert:-o)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    evaluate:--split|evaluate:-S)
        mapfile -t COMPREPLY < <(compgen -W "none row model family kin" -- "$word")
        return ;;
    train:--split|train:-S)
        mapfile -t COMPREPLY < <(compgen -W "row model family kin" -- "$word")
        return ;;
    *:--folds)
        return ;;
    *:--hold-out)
        return ;;
    train:--target)
        mapfile -t COMPREPLY < <(compgen -W "memory flops flop-rate step_ms smact smocc drama tensor" -- "$word")
        return ;;
    evaluate:--target)
        mapfile -t COMPREPLY < <(compgen -W "memory flops flop-rate step_ms smact smocc drama tensor" -- "$word")
        return ;;
    evaluate:--seed|train:--seed)
        return ;;
    simulate:--seed)
        return ;;
    *:--bin)
        return ;;
    *:--set)
        return ;;
    *:--threads)
        return ;;
    *:--csv)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    evaluate:--sizes)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--scatter)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--bars)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--report)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--curve)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--max-memory)
        return ;;
    *:--max-time)
        return ;;
    *:--interval|*:-i)
        return ;;
    *:--duration|*:-d)
        return ;;
    watch:--out|watch:-o)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--prometheus)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return ;;
    *:--post)
        return ;;
    *:--job)
        return ;;
    *:--predicted)
        return ;;
    *:--predict)
        return ;;
    esac
    case ${COMP_WORDS[1]} in
    estimate) options="--batch --seq --task --attention --precision --optimizer --loss --train --checkpoint --accumulate --channels-last --cudnn-benchmark --alloc-conf --parallel --load --gpu --gpus --risk --host-speed --copy-gbps --estimator --model --timeline --heatmap --max-memory --max-time --json --help --version" ;;
    explain) options="--batch --seq --task --attention --precision --optimizer --loss --train --checkpoint --accumulate --channels-last --cudnn-benchmark --alloc-conf --parallel --load --gpu --gpus --risk --host-speed --copy-gbps --estimator --model --timeline --snapshot --time --times --max-memory --max-time --json --help --version" ;;
    check) options="--batch --seq --task --attention --precision --optimizer --loss --train --checkpoint --accumulate --channels-last --cudnn-benchmark --alloc-conf --parallel --load --gpu --gpus --risk --estimator --model --max-memory --max-time --json --help --version" ;;
    fit) options="--batch --seq --task --attention --precision --optimizer --loss --train --checkpoint --accumulate --channels-last --cudnn-benchmark --alloc-conf --parallel --load --gpu --gpus --risk --estimator --model --most --max-memory --max-time --json --help --version" ;;
    collocate) options="--batch --seq --task --attention --precision --optimizer --loss --train --checkpoint --accumulate --channels-last --cudnn-benchmark --alloc-conf --parallel --load --gpu --gpus --sharing --risk --host-speed --copy-gbps --estimator --model --max-memory --max-time --json --help --version" ;;
    place) options="--batch --seq --task --attention --precision --optimizer --loss --train --checkpoint --accumulate --channels-last --cudnn-benchmark --alloc-conf --parallel --load --gpus --cluster --policy --max-slowdown --max-jobs --risk --host-speed --copy-gbps --estimator --model --max-memory --max-time --json --help --version" ;;
    simulate) options="--gpus --cluster --trace --sizes --policy --max-slowdown --max-jobs --risk --guess --peak-after --crashes --backfill --patience --chart --seed --max-memory --max-time --json --help --version" ;;
    convert) options="--batch --seq --task --attention --train --out --max-memory --max-time --json --help --version" ;;
    evaluate) options="--gpu --estimator --model --graphs --described --split --folds --target --seed --bin --set --threads --csv --sizes --scatter --bars --report --max-memory --max-time --json --help --version" ;;
    train) options="--gpu --jobs --graphs --described --out --split --hold-out --target --seed --bin --set --curve --max-memory --max-time --json --help --version" ;;
    estimators) options="--json --help --version" ;;
    gpus) options="--gpus --json --help --version" ;;
    watch) options="--interval --duration --out --prometheus --post --job --predicted --predict --predict-script --json --help --version" ;;
    serve) options="--json --help --version" ;;
    history) options="--json --help --version" ;;
    *) return ;;
    esac
    case ${COMP_WORDS[1]}:$word in
    *:-*) mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word") ;;
    train:*) mapfile -t COMPREPLY < <(compgen -W "hybrid bigru-transformer bigru-transformer-light transformer-only bigru-only transformer-bigru decision-tree random-forest adaboost xgboost extra-trees catboost lightgbm lightgbm-library gpumemnet-mlp gpumemnet-transformer gpumemnet-regression" -- "$word") ;;
    estimators:*) mapfile -t COMPREPLY < <(compgen -W "hybrid sim bigru-transformer bigru-transformer-light transformer-only bigru-only transformer-bigru decision-tree random-forest adaboost xgboost extra-trees catboost lightgbm lightgbm-library gpumemnet-mlp gpumemnet-transformer gpumemnet-regression horus dnnmem llmem zero accelerate faketensor" -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}
complete -o filenames -F _plimsoll plimsoll
