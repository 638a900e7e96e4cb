/*
 * The forecast's module (page/ask.c) for JavaScript:
 *
 *     const model = await lockstepModel(bytes);
 *     model.put("job.json", text);
 *     model.ask(["predict", "job.json", "cluster.json", "--gpus=8", "--format=json"])
 *         -> {code, page, error, log}: exit code, standard output, the failure, the log's lines
 *
 * Page, worker and tests use this one function, which refers to nothing outside it.
 */
async function lockstepModel(bytes) {
    const BAD_DESCRIPTOR = 8, NO_SEEK = 70;
    const decoder = new TextDecoder(), encoder = new TextEncoder();
    let log = "", module;

    const view = () => new DataView(module.memory.buffer);
    const heap = () => new Uint8Array(module.memory.buffer);

    /* The C library asks its system for lines on standard error, and for nothing else. */
    const system = {
        fd_write(fd, vectors, count, written) {
            let total = 0;

            for (let i = 0; i < count; i++) {
                const at = view().getUint32(vectors + 8 * i, true);
                const size = view().getUint32(vectors + 8 * i + 4, true);

                log += decoder.decode(heap().slice(at, at + size));
                total += size;
            }
            view().setUint32(written, total, true);
            return 0;
        },
        fd_close: () => 0,
        fd_seek: () => NO_SEEK,
        fd_fdstat_get: () => BAD_DESCRIPTOR,
        environ_get: () => 0,
        environ_sizes_get(count, size) {
            view().setUint32(count, 0, true);
            view().setUint32(size, 0, true);
            return 0;
        },
        proc_exit(code) {
            throw new Error("the model ended with code " + code);
        },
    };

    /* Copy a text into the module, with a NUL at its end; whoever gets it frees it. */
    function give(text) {
        const utf8 = encoder.encode(text), at = module.page_alloc(utf8.length + 1);

        if (!at)
            throw new Error("no memory for " + utf8.length + " bytes");
        heap().set(utf8, at);
        heap()[at + utf8.length] = 0;
        return {at, size: utf8.length};
    }

    function take(at, size) {
        return decoder.decode(heap().slice(at, at + size));
    }

    /* Call a function with a name. */
    function named(name, call) {
        const given = give(name);

        try {
            return call(given.at);
        } finally {
            module.page_free(given.at);
        }
    }

    function put(name, text) {
        const given = give(text);

        if (named(name, (at) => module.page_put(at, given.at, given.size)) !== 0)
            throw new Error(error());
    }

    /* Return a file's text; "": there is none. */
    function read(name) {
        return named(name, (at) => take(module.page_text(at), module.page_size(at)));
    }

    function error() {
        const at = module.page_error();

        return take(at, heap().indexOf(0, at) - at);
    }

    function ask(words) {
        const given = give(words.map((word) => word + "\0").join(""));

        try {
            log = "";
            const code = module.page_ask(given.at, given.size);

            return {code, page: read("-"), error: code ? error() : "", log};
        } finally {
            module.page_free(given.at);
        }
    }

    module = (await WebAssembly.instantiate(bytes, {wasi_snapshot_preview1: system})).instance.exports;
    module._initialize();
    /* Return the pictures of the last forecast, each an SVG element: of its "answer", its "grid", or "all". */
    function charts(view = "answer") {
        const all = [], n = module.page_draw(["answer", "grid", "all"].indexOf(view));

        if (n < 0)
            throw new Error(error());
        for (let i = 0; i < n; i++)
            all.push(read(`chart-${i}.svg`));
        return all;
    }

    const remove = (name) => named(name, (at) => module.page_remove(at));

    return {put, read, remove, ask, charts, bytes: () => module.memory.buffer.byteLength};
}
