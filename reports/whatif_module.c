/* Bytes of files that the build makes; see the header. */
#include "reports/whatif_module.h"

#ifdef LK_PAGE_WASM

/* Put a file between two symbols, with a NUL behind it. */
#define EMBED(name, file)                                                                          \
    __asm__(".section .rodata\n"                                                                   \
            ".globl " #name "\n" #name ":\n"                                                       \
            ".incbin \"" file "\"\n"                                                               \
            ".globl " #name "_end\n" #name "_end:\n"                                               \
            ".byte 0\n"                                                                            \
            ".previous\n");                                                                        \
    extern const unsigned char name[], name##_end[];

EMBED(lk_page_wasm, LK_PAGE_WASM)
EMBED(lk_page_model, "page/model.js")
EMBED(lk_page_script, "page/page.js")
EMBED(lk_page_style, "page/page.css")

struct lk_whatif_module lk_whatif_module(void)
{
    return (struct lk_whatif_module){.gz = lk_page_wasm,
                                     .gz_size = (size_t)(lk_page_wasm_end - lk_page_wasm),
                                     .model = (const char *)lk_page_model,
                                     .script = (const char *)lk_page_script,
                                     .style = (const char *)lk_page_style};
}

#else

struct lk_whatif_module lk_whatif_module(void)
{
    return (struct lk_whatif_module){
#ifdef LK_PAGE_OFF
        .missing = "This lockstep was built with WASM=no."
#else
        .missing = "This lockstep was built where clang, lld, wasi-libc and "
                   "libclang-rt-dev-wasm32 (Debian's packages) were not."
#endif
    };
}

#endif
