/*
 * The page's module against the program: the same commands, asked of both.
 *
 *     node tests/page/equal.js PROGRAM MODULE FOLDER JOB... -- CLUSTER...
 *
 * FOLDER is a scratch folder, where the program works. Texts and exit codes must be equal. Numbers may differ by 1e-9,
 * relative: the two have C libraries of their own, whose exp, log, erfc and cos differ in the last bits. So may what is left
 * where nearly equal numbers cancel, as a loss of 5e-10 s of a step of 0.1 s, by 1e-15. Prints how many
 * commands and numbers there were and the largest difference; exits with 1 and the first places where they differ by more.
 */
"use strict";
const fs = require("fs");
const path = require("path");
const {spawnSync} = require("child_process");

const TOLERANCE = 1e-9, CANCELLED = 1e-15, SHOWN = 20;

const REQUESTS = [
    "predict --gpus=1,2,8,64,1024",
    "predict --gpus=1,2,4,8,16,32,64,128,256,512,1024 --draws=20",
    "predict --gpus=8,64 --local-batch=4,16 --accumulation=1,4 --bucket-cap=1MiB,25MiB --draws=20",
    "predict --gpus=8,64 --global-batch=4096 --draws=20",
    "predict --gpus=8,64 --level=0.5 --seed=7 --draws=50",
    "predict --gpus=8,512 --price=2 --power=400 --target-samples=1e6 --target-batch=64 --noise-scale=500 --device-memory=80GiB --draws=20",
    "predict --gpus=4 --slow-rank=1:1.5 --slow-link=0:2 --draws=20",
    "whatif --gpus=8,64 --bucket-cap=256KiB,1MiB,25MiB --accumulation=1,4 --draws=20",
    "whatif --gpus=8 --sharding=ddp,zero1,zero2,zero3,hsdp,local-sgd,diloco --period=8 --shard-group=4 --draws=20",
    "whatif --gpus=8,64 --node-bandwidth=x0.5,x2 --inter-latency=x0.5,x4 --draws=20",
    "whatif --gpus=8,64 --straggler-spread=0.5,x1,x2 --draws=20",
    "whatif --gpus=16,64 --gpus-per-node=4,8 --oversubscription=1,2 --nodes-per-switch=4 --draws=20",
    "whatif --gpus=8 --grad-dtype=own,bfloat16 --compression=none,fp16,powersgd --algorithm=auto,ring,tree --draws=20",
    /* A command refuses in the same words. */
    "predict",
    "predict --gpus=0",
    "predict --gpus=8 --bucket-cap=25",
    "predict --gpus=8 --fail-if=efficiency<2",
    "predict --gpus=8 --table=nothing",
    "whatif --gpus=8 --sharding=zero9",
];

/* Numbers of a text of JSON or of prose, and what stands between them. */
const NUMBER = /-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;

let numbers = 0, largest = 0;

/* Compare two texts; return the first place where they differ, or null. */
function differ(a, b) {
    const x = a.match(NUMBER) || [], y = b.match(NUMBER) || [];

    if (a.replace(NUMBER, "#") !== b.replace(NUMBER, "#"))
        return "texts: " + firstLine(a, b);
    for (let i = 0; i < x.length; i++) {
        const u = Number(x[i]), v = Number(y[i]), error = Math.abs(u - v) / Math.max(Math.abs(u), Math.abs(v), 1e-300);

        numbers++;
        if (x[i] === y[i] || Math.abs(u - v) < CANCELLED)
            continue;
        largest = Math.max(largest, error);
        if (!(error <= TOLERANCE))
            return `numbers: ${x[i]} and ${y[i]}`;
    }
    return null;
}

function firstLine(a, b) {
    const x = a.split("\n"), y = b.split("\n"), i = x.findIndex((line, k) => line.replace(NUMBER, "#") !== (y[k] || "").replace(NUMBER, "#"));

    return `'${x[i]}' and '${y[i]}'`;
}

/* Run the program in the folder. */
function native(program, folder, words) {
    const r = spawnSync(program, words, {cwd: folder, encoding: "utf8", maxBuffer: 1 << 28});

    return {code: r.status, page: r.stdout, said: r.stderr};
}

async function main() {
    const [program, module, folder, ...files] = process.argv.slice(2);
    const dashes = files.indexOf("--"), jobs = files.slice(0, dashes), clusters = files.slice(dashes + 1);
    const load = new Function(fs.readFileSync("page/model.js", "utf8") + "; return lockstepModel;")();
    const model = await load(fs.readFileSync(module));
    const found = [];
    let commands = 0, refused = 0;

    const put = (name, file) => {
        const text = fs.readFileSync(file, "utf8");

        fs.writeFileSync(path.join(folder, name), text);
        model.put(name, text);
    };
    for (const job of jobs) {
        put("job.json", job);
        for (const cluster of clusters) {
            put("cluster.json", cluster);
            for (const request of REQUESTS) {
                const [command, ...options] = request.split(" ");
                const words = [command, "job.json", "cluster.json", ...options, "--format=json", "--out=forecast.json"];
                const out = path.join(folder, "forecast.json");

                fs.rmSync(out, {force: true});
                model.remove("forecast.json");
                const a = native(path.resolve(program), folder, words), b = model.ask(words);
                a.forecast = fs.existsSync(out) ? fs.readFileSync(out, "utf8") : "";
                b.forecast = model.read("forecast.json");
                b.said = b.log + (b.code ? `lockstep ${command}: ${b.error}\n` : "");
                for (const what of ["page", "forecast", "said"]) {
                    const place = differ(a[what], b[what]);

                    if (place)
                        found.push(`${job} ${cluster}: ${words.join(" ")}: ${what}: ${place}`);
                }
                if (a.code !== b.code)
                    found.push(`${job} ${cluster}: ${words.join(" ")}: exit codes: ${a.code} and ${b.code}`);
                commands++;
                refused += a.code !== 0;
            }
        }
    }
    console.log(`${commands} commands, ${refused} of them refused; ${numbers} numbers, largest relative difference ${largest.toExponential(1)}`);
    for (const line of found.slice(0, SHOWN))
        console.log(line);
    process.exitCode = found.length || !numbers ? 1 : 0;
}

main();
