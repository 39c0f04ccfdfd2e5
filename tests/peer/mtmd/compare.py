#!/usr/bin/python3
"""compare.py PEER BUILD MODELS: what llama.cpp's mtmd answers about the goldens' pictures and sounds, on files that
`sluice convert --mmproj` writes (F32). Its greedy tokens must be the golden's up to a step whose two best logits are
closer than 0.05; Sluice's own are held to the golden by `sluice verify`. Films are left out: mtmd samples them itself.

mtmd gets pictures as the processors of transformers resize them (`peer_resized`), because it resizes otherwise
(docs/peer.md)."""
import json
import os
import subprocess
import sys
import tempfile

CLOSE = 0.05
GOLDENS = [("gemma4", "golden"), ("gemma4", "golden_audio"), ("gemma4_dense", "golden"), ("gemma4_towers", "golden"),
           ("gemma4_unified", "golden"), ("qwen3_5", "golden"), ("qwen3_5", "golden_media"), ("qwen3_5_moe", "golden")]
KINDS = ("image", "audio", "mixed")
# llama.cpp ends on a failed assertion of its own when it opens this text model (docs/peer.md).
NOT_OPENED = "gemma4_towers"


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def media_ids(config):
    """The ids that stand in the place of a row of a picture or sound."""
    return {config[key] for key in ("image_token_id", "audio_token_id") if config.get(key) is not None}


def places(ids, media):
    """The prompt as peer_mtmd takes it: each run of media ids is one m."""
    out = []
    for i, token in enumerate(ids):
        if token not in media:
            out.append(str(token))
        elif i == 0 or ids[i - 1] != token:
            out.append("m")
    return ",".join(out)


def rows_of_files(case, config):
    """The rows that the reference gave each file, 0 for sounds. mtmd has limits of its own, and the files name none."""
    rows, before = [], None
    for token in case["input_ids"]:
        if token in media_ids(config):
            is_picture = token == config.get("image_token_id")
            rows = rows + [int(is_picture)] if token != before else rows[:-1] + [rows[-1] + is_picture]
        before = token
    return {"ROWS": ",".join(map(str, rows))}


def resize_rule(folder):
    """The arguments of peer_resized behind its files."""
    rules, config = read(os.path.join(folder, "preprocessor_config.json")), read(os.path.join(folder, "config.json"))
    if "size" in rules:
        return ["qwen", rules["patch_size"] * rules["merge_size"], rules["size"]["shortest_edge"], rules["size"]["longest_edge"]]
    return [config["model_type"], rules["patch_size"] * rules["pooling_kernel_size"], rules["max_soft_tokens"]]


def resized(build, work, folder, name):
    """The path of a picture as the model's processor resizes it; that of a sound as it is."""
    path, out = os.path.join(folder, name), os.path.join(work, f"{os.path.basename(folder)}-{name}.ppm")
    if name.endswith(".wav"):
        return path
    command = [os.path.join(build, "peer_resized"), path, out, *map(str, resize_rule(folder))]
    subprocess.run(command, check=True)
    return out


def answer(peer, files, media, case, config):
    libraries = os.path.join(peer, "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64")
    command = [os.path.join(peer, "mtmd/peer_mtmd"), libraries, *files, places(case["input_ids"], media_ids(config)),
               str(len(case["greedy"])), "2", "0", *media]
    done = subprocess.run(command, env={**os.environ, **rows_of_files(case, config)}, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {"error": done.stderr.strip() or f"status {done.returncode}"}


def judge(case, said):
    if "error" in said:
        return False, said["error"]
    for i, (want, got) in enumerate(zip(case["greedy"], said["tokens"])):
        if want != got:
            margin = case["greedy_margin"][i]
            return margin < CLOSE, f"part at {i}, where the golden's margin is {margin:.4f}"
    return True, f"{len(case['greedy'])} tokens equal"


def main():
    peer, build, models = sys.argv[1:4]
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        for name, golden in GOLDENS:
            folder = os.path.join(models, name)
            files = [os.path.join(work, f"{name}.gguf"), os.path.join(work, f"mmproj-{name}.gguf")]
            if not os.path.exists(files[0]):
                subprocess.run([os.path.join(build, "sluice"), "convert", folder, files[0], "--to", "f32", "--mmproj",
                                files[1]], check=True, capture_output=True)
            config = read(os.path.join(folder, "config.json"))
            for case in read(os.path.join(folder, golden + ".json"))["cases"]:
                if case["kind"] not in KINDS:
                    continue
                media = [resized(build, work, folder, one) for one in case["files"]]
                good, text = judge(case, answer(peer, files, media, case, config))
                failed += not good and name != NOT_OPENED
                print(f"{name} {case['name']}: {text if good else 'DIFFERS: ' + text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
