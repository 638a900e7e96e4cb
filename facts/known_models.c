/* The table of known models. */
#include "facts/known_models.h"

#include "base/array.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>

/* Training takes three forwards, and torchvision counts multiply-adds, each two operations. */
#define OF_GMACS(x) (3 * 2 * (x)*1e9)
/* 6 operations a parameter and token: Kaplan et al. 2020, arXiv:2001.08361, section 2.1. */
#define OF_TOKENS(parameters, tokens) (6 * (parameters) * (tokens))
#define VISION(name, millions, gmacs)                                                              \
    {                                                                                              \
        name, (millions)*1e6, OF_GMACS(gmacs), "image",                                            \
            "torchvision's table of classification weights: parameters, GFLOPS of a forward"       \
    }

/* clang-format off */
const struct lk_known_model lk_known_models[] = {
    VISION("alexnet", 61.1, 0.71),
    VISION("convnext-tiny", 28.6, 4.46),
    VISION("densenet121", 8.0, 2.83),
    VISION("efficientnet-b0", 5.3, 0.39),
    VISION("inception-v3", 27.2, 5.71),
    VISION("mobilenet-v2", 3.5, 0.30),
    VISION("resnet18", 11.7, 1.81),
    VISION("resnet34", 21.8, 3.66),
    VISION("resnet50", 25.6, 4.09),
    VISION("resnet101", 44.5, 7.80),
    VISION("resnet152", 60.2, 11.51),
    VISION("swin-t", 28.3, 4.49),
    VISION("vgg16", 138.4, 15.47),
    VISION("vit-b-16", 86.6, 17.56),
    VISION("vit-l-16", 304.3, 61.55),
    {"bert-base", 110e6, OF_TOKENS(110e6, 512), "sequence of 512 tokens",
     "Devlin et al. 2018, arXiv:1810.04805: parameters; 6 operations a parameter and token"},
    {"bert-large", 340e6, OF_TOKENS(340e6, 512), "sequence of 512 tokens",
     "Devlin et al. 2018, arXiv:1810.04805: parameters; 6 operations a parameter and token"},
    {"gpt2", 124e6, OF_TOKENS(124e6, 1024), "sequence of 1024 tokens",
     "openai/gpt-2: 124M parameters; 6 operations a parameter and token"},
    {"gpt2-xl", 1.5e9, OF_TOKENS(1.5e9, 1024), "sequence of 1024 tokens",
     "Radford et al. 2019: 1.5B parameters; 6 operations a parameter and token"},
    {"llama-7b", 6.7e9, OF_TOKENS(6.7e9, 2048), "sequence of 2048 tokens",
     "Touvron et al. 2023, arXiv:2302.13971, table 2; 6 operations a parameter and token"},
};
/* clang-format on */
const size_t lk_n_known_models = LK_COUNT(lk_known_models);

static bool is_same(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == '-' || *a == '_')
            a++;
        while (*b == '-' || *b == '_')
            b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

enum lk_status lk_known_model_find(const char *name, const struct lk_known_model **out)
{
    enum lk_status st = LK_OK;
    char *list = NULL;

    for (size_t i = 0; i < lk_n_known_models; i++)
        if (is_same(name, lk_known_models[i].name)) {
            *out = &lk_known_models[i];
            return LK_OK;
        }
    for (size_t i = 0; i < lk_n_known_models; i++)
        LK_TRY(lk_text_add(&list, "%s%s", i ? ", " : "", lk_known_models[i].name));
    st = lk_fail(LK_EUSAGE,
                 "--model: '%s' is not known; --parameters and --flops say what it is, "
                 "or one of: %s",
                 name, list);
out:
    free(list);
    return st;
}
