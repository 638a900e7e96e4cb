/*
 * Sizes and speed of the module that a report's page carries, in Node:
 *
 *     node bench/page.js [MODULE [JOB CLUSTER]]      default: build/page/lockstep.wasm, the tests' own job and dgx-h100
 *
 * Times are processor time, medians of 21 requests at 11 counts from 1 to 1,024 GPUs, each whole: read job and cluster,
 * forecast, print and draw.
 */
"use strict";
const fs = require("fs");
const zlib = require("zlib");

const [wasm = "build/page/lockstep.wasm", job = "tests/fuzz/corpus/job/full.json", cluster = "clusters/dgx-h100.json"] = process.argv.slice(2);
const GPUS = "--gpus=1,2,4,8,16,32,64,128,256,512,1024", REQUESTS = 21;
const AXES = "--local-batch=16 --accumulation=2 --bucket-cap=50MiB --node-bandwidth=x2 --inter-latency=x0.5 --straggler-spread=x2";

function cpu(call) {
    const begun = process.cpuUsage();

    call();
    const used = process.cpuUsage(begun);

    return (used.user + used.system) / 1000;
}

function median(call) {
    return Array.from({length: REQUESTS}, () => cpu(call)).sort((a, b) => a - b)[REQUESTS >> 1].toFixed(1);
}

async function main() {
    const bytes = fs.readFileSync(wasm), packed = zlib.gzipSync(bytes, {level: 9});
    const load = new Function(fs.readFileSync("page/model.js", "utf8") + "; return lockstepModel;")();

    console.log(`module: ${bytes.length} bytes, ${packed.length} gzipped`);
    const begun = process.cpuUsage(), model = await load(bytes), used = process.cpuUsage(begun);
    console.log(`compile and start: ${((used.user + used.system) / 1000).toFixed(0)} ms`);
    model.put("job.json", fs.readFileSync(job, "utf8"));
    model.put("cluster.json", fs.readFileSync(cluster, "utf8"));
    for (const request of ["predict", "whatif --node-bandwidth=x2", "whatif " + AXES]) {
        for (const draws of [20, 200]) {
            const [command, ...axes] = request.split(" ");
            const words = [command, "job.json", "cluster.json", GPUS, ...axes, "--draws=" + draws, "--format=json", "--out=forecast.json"];
            const once = () => {
                const answer = model.ask(words);

                if (answer.code !== 0)
                    throw new Error(answer.error);
                model.charts();
            };

            console.log(`${request}, ${draws} draws: first ${cpu(once).toFixed(0)} ms, then ${median(once)} ms`);
        }
    }
    console.log(`memory: ${(model.bytes() / 2 ** 20).toFixed(1)} MiB`);
}

main();
