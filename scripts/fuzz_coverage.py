#!/usr/bin/env python3
"""Lines of the readers that a fuzzer's inputs reach: fuzz_coverage.py LLVM_COV PROGRAM PROFILE FILE...

Counts the lines of functions that read. Others, which share files with them, are left out by name:
"""
import json
import re
import subprocess
import sys

# Functions (file:name) that no bytes of a file lead to.
LEFT_OUT = {
    "they write": """
        png:PngEncoder::PngEncoder png:PngEncoder::~PngEncoder png:write_bytes png:write_pixels png:encode_png image:write_image
        npy:npy_header npz:npy_file npz:zip_of npz:write_npz
        safetensors:lay_out safetensors:write_safetensors safetensors_header:format_safetensors_header
        safetensors_header:safetensors_dtype
        token_shard:join_keys token_shard:write_token_shard token_shard:token_type_name
        token_manifest:to_json token_manifest:data_to_json token_manifest:text_of
        token_manifest:write_token_manifest token_manifest:create_token_manifest token_manifest:write_shard_record
        state:state_to_json folder_checksums:write_checksums
        pipe_index:name_to_json pipe_index:save_pipe_index model_file:model_contents model_file:write_model
        contents_hash:add_contents_hash""",
    "they run commands": """
        pipe_index:list_once pipe_index:list_piped_images pipe_index:index_pipes pipe_index:retry_command
        pipe_index:pause_unless_stopped""",
    "they look into folders": """
        patterns:match_wildcards patterns:exists patterns:expand_paths patterns:home_path patterns:change_source
        open_model:open_model_file open_model:marked_checkpoint open_model:read_newest open_model:hint_at_runs open_model:has_runs_in_it
        layout:list_checkpoints layout:step_of_checkpoint layout:holds_run layout:newest_samples run_catalog:RunCatalog::RunCatalog""",
    "they number the classes of images that are open": "combined_sources:NamedClasses::NamedClasses combined_sources:NamedClasses::label",
    "they show or compare what was read": """
        yaml:YamlValue::shown option_table:OptionTable::differences tokenizer_config:essential_differences tokenizer_config:config_reference model_file:model_sha256""",
}


def short_name(demangled):
    """'Output::write' of 'nsvq::(anonymous namespace)::Output::write(int)::{lambda()#1}::operator()() const'."""
    text = demangled.replace("(anonymous namespace)", "anonymous")
    text = text.split("::{lambda")[0].split("::$_")[0].split("'lambda")[0]
    text = re.sub(r"\[abi:\w+\]", "", text)
    depth, plain = 0, ""
    for c in text:  # without what stands in brackets
        depth += c in "<("
        if depth == 0:
            plain += c
        depth -= c in ">)"
        if c == ")" and depth == 0:
            break
    parts = [part for part in plain.split()[-1].split("::") if part not in ("nsvq", "anonymous")] if plain.split() else [demangled]
    return "::".join(parts)


def export(cov, program, profile, files, *options):
    command = [cov, "export", "-instr-profile=" + profile, *options, program, *files]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def counted_lines(lcov):
    """{file: {line: count}}"""
    lines, file = {}, None
    for row in lcov.splitlines():
        if row.startswith("SF:"):
            file = lines.setdefault(row[3:], {})
        elif row.startswith("DA:"):
            line, count = row[3:].split(",")[:2]
            file[int(line)] = int(count)
    return lines


def functions(exported):
    """(file, name, first line, last line) of each, templates and lambdas included."""
    found = json.loads(exported)["data"][0]["functions"]
    names = "\n".join(function["name"].split(":")[-1] for function in found)
    shown = subprocess.run(["c++filt"], input=names, capture_output=True, text=True, check=True).stdout.split("\n")
    for function, name in zip(found, shown):
        region = function["regions"][0]
        yield function["filenames"][region[5]], short_name(name), region[0], region[2]


def left_out_reason(file, name):
    key = re.sub(r".*/|\.\w+$", "", file) + ":" + name
    return next((why for why, keys in LEFT_OUT.items() if key in keys.split()), None)


def main():
    cov, program, profile, *files = sys.argv[1:]
    lines = counted_lines(export(cov, program, profile, files, "-format=lcov"))
    all_functions = sorted(set(functions(export(cov, program, profile, files, "-skip-expansions"))))
    below, unreached = [], []
    for file in sorted(lines):
        own = [function[1:] for function in all_functions if function[0] == file]
        without = {line for name, first, last in own if left_out_reason(file, name) for line in range(first, last + 1)}
        kept = {line: count for line, count in lines[file].items() if line not in without}
        if not kept:
            continue
        covered = sum(count > 0 for count in kept.values())
        short = file.split("/nsvq/")[-1]
        if covered == 0:  # where only some readers were asked for
            unreached.append(short)
            continue
        print("%5.1f %%  %3d of %3d lines  %s" % (100 * covered / len(kept), covered, len(kept), short))
        for name, first, last in own:
            within = {line: count for line, count in kept.items() if first <= line <= last}
            missed = [line for line, count in within.items() if count == 0]
            if missed and len(missed) > 0.1 * len(within):
                below.append("%s: %s, %d of %d lines; not %s" % (short, name, len(within) - len(missed), len(within),
                                                                " ".join(map(str, sorted(missed)))))
    if unreached:
        print("no line of", *unreached)
    print("functions below 90 %:", *(below or ["none"]), sep="\n")


if __name__ == "__main__":
    main()
