#!/usr/bin/env python3
"""make_media.py MODELS: writes the files of this folder.

Pictures are drawn here and written by Pillow, or by hand where Pillow cannot write that kind; their pixels in
expected.json are what Pillow reads (exif_transpose, convert("RGB"), resize with BICUBIC). Tones are written by SoX
and opusenc.
golden.safetensors holds what transformers' processors make of pictures and sounds, cut from the reference models' goldens
in MODELS. Made with Python 3.11.2, Pillow 9.4.0 (libjpeg-turbo 2.1.5, libwebp 1.2.4), SoX 14.4.2
and opus-tools 0.2.
"""

import io
import json
import pathlib
import struct
import subprocess
import sys
import zlib

from PIL import Image, ImageOps

HERE = pathlib.Path(__file__).resolve().parent
WIDTH, HEIGHT = 7, 5


def draw(width=WIDTH, height=HEIGHT, channels=3):
    """Every pixel differs from its neighbours; no two rows or columns are alike."""
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            for channel in range(channels):
                pixels.append((x * 37 + y * 59 + channel * 83 + x * y * (channel + 3)) % 256)
    return bytes(pixels)


def photograph(width, height):
    """Smooth with one edge, so that lossy coders keep it and resizing overshoots."""
    pixels = bytearray()
    for y in range(height):
        for x in range(width):
            bright = 120 if x > width * 0.6 else 0
            pixels += bytes([x * 135 // width + bright, y * 255 // height, (x + y) * 127 // (width + height) + bright])
    return Image.frombytes("RGB", (width, height), bytes(pixels))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits, colour, rows, interlaced=False, before=b""):
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced))
    body = zlib.compress(b"".join(b"\0" + row for row in rows), 9)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def adam7(pixels):
    """The rows of an RGB picture in the order of the seven passes."""
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        for y in range(y0, HEIGHT, dy):
            row = b"".join(pixels[(y * WIDTH + x) * 3 :][:3] for x in range(x0, WIDTH, dx))
            if row:
                yield row


def exif(orientation, order="<"):
    letters = b"II" if order == "<" else b"MM"
    entry = struct.pack(order + "HHIHH", 0x112, 3, 1, orientation, 0)
    return letters + struct.pack(order + "HIH", 42, 8, 1) + entry + struct.pack(order + "I", 0)


def bmp(width, height, bits, rows, packing=0, palette=b"", masks=b"", from_top=False, core=False):
    stride = (width * bits + 31) // 32 * 4
    body = b"".join(row.ljust(stride, b"\0") for row in (rows if from_top else reversed(rows)))
    if core:
        head = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        head = struct.pack("<IiiHHIIiiII", 40, width, -height if from_top else height, 1, bits, packing, len(body), 0, 0, len(palette) // 4, 0)
    offset = 14 + len(head) + len(masks) + len(palette)
    return b"BM" + struct.pack("<III", offset + len(body), 0, offset) + head + masks + palette + body


def rows_of(pixels, row_bytes):
    return [pixels[at : at + row_bytes] for at in range(0, len(pixels), row_bytes)]


def packed(bits):
    """Rows of indices of that many bits, the first in the highest ones."""
    for y in range(HEIGHT):
        text = "".join(format((x * 3 + y * 5) % (1 << bits), f"0{bits}b") for x in range(WIDTH))
        text = text.ljust((len(text) + 7) // 8 * 8, "0")
        yield bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8))


def saved(picture, kind, **options):
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def part_gif():
    """A frame of 3 x 2 at (2, 1) of a screen of 7 x 5, with a transparent colour; by Pillow, then moved."""
    small = Image.frombytes("P", (3, 2), bytes([0, 1, 2, 3, 1, 2]))
    small.putpalette([200, 10, 20, 30, 210, 40, 50, 60, 220, 70, 80, 90])
    data = bytearray(saved(small, "GIF", transparency=1))
    struct.pack_into("<HH", data, 6, WIDTH, HEIGHT)
    at = data.index(b"\x2c", 13 + 12)
    struct.pack_into("<HH", data, at + 1, 2, 1)
    return bytes(data)


def pictures():
    rgb = Image.frombytes("RGB", (WIDTH, HEIGHT), draw())
    rgba = Image.frombytes("RGBA", (WIDTH, HEIGHT), draw(channels=4))
    palette = rgb.quantize(9)
    photo = photograph(24, 16)
    files = {
        "rgb.png": saved(rgb, "PNG"),
        "rgba.png": saved(rgba, "PNG"),
        "gray.png": saved(rgb.convert("L"), "PNG"),
        "gray_alpha.png": saved(rgba.convert("LA"), "PNG"),
        "palette.png": saved(palette, "PNG", transparency=3),
        "bits1.png": png(WIDTH, HEIGHT, 1, 0, packed(1)),
        "bits2.png": png(WIDTH, HEIGHT, 2, 0, packed(2)),
        "bits4.png": png(WIDTH, HEIGHT, 4, 0, packed(4)),
        "rgb16.png": png(WIDTH, HEIGHT, 16, 2, rows_of(draw(channels=6), WIDTH * 6)),
        "gray_alpha16.png": png(WIDTH, HEIGHT, 16, 4, rows_of(draw(channels=4), WIDTH * 4)),
        "interlaced.png": png(WIDTH, HEIGHT, 8, 2, adam7(draw()), interlaced=True),
        "turned.png": png(WIDTH, HEIGHT, 8, 2, rows_of(draw(), WIDTH * 3), before=chunk(b"eXIf", exif(6, ">"))),
        "plain.jpg": saved(photo, "JPEG", quality=90, subsampling=0),
        "halved.jpg": saved(photo, "JPEG", quality=85, subsampling=2),
        "gray.jpg": saved(photo.convert("L"), "JPEG"),
        "progressive.jpg": saved(photo, "JPEG", progressive=True),
        "cmyk.jpg": saved(photo.convert("CMYK"), "JPEG"),
        "lossless.webp": saved(rgb, "WebP", lossless=True),
        "lossy.webp": saved(photo, "WebP", quality=80),
        "alpha.webp": saved(rgba, "WebP", lossless=True, exact=True),
        "turned.webp": saved(rgb, "WebP", lossless=True, exif=b"Exif\0\0" + exif(8)),
        "animated.webp": saved(rgb, "WebP", lossless=True, save_all=True, append_images=[ImageOps.invert(rgb)]),
        "plain.gif": saved(palette, "GIF", interlace=0),
        "interlaced.gif": saved(photo.quantize(16), "GIF", interlace=1),
        "animated.gif": saved(palette, "GIF", save_all=True, append_images=[ImageOps.invert(rgb).quantize(9)]),
        "part.gif": part_gif(),
        "bits1.bmp": bmp(WIDTH, HEIGHT, 1, list(packed(1)), palette=bytes([10, 20, 30, 0, 240, 230, 220, 0])),
        "bits4.bmp": bmp(WIDTH, HEIGHT, 4, list(packed(4)), palette=draw(16, 1, 4)),
        "bits8.bmp": saved(palette, "BMP"),
        "bits16.bmp": bmp(WIDTH, HEIGHT, 16, rows_of(draw(channels=2), WIDTH * 2)),
        "bits24.bmp": saved(rgb, "BMP"),
        "bits32.bmp": bmp(WIDTH, HEIGHT, 32, rows_of(draw(channels=4), WIDTH * 4)),
        "top_down.bmp": bmp(WIDTH, HEIGHT, 24, rows_of(draw(), WIDTH * 3), from_top=True),
        "masks16.bmp": bmp(WIDTH, HEIGHT, 16, rows_of(draw(channels=2), WIDTH * 2), packing=3, masks=struct.pack("<III", 0xF800, 0x7E0, 0x1F)),
        "masks32.bmp": bmp(WIDTH, HEIGHT, 32, rows_of(draw(channels=4), WIDTH * 4), packing=3, masks=struct.pack("<III", 0xFF000000, 0xFF0000, 0xFF00)),
        "core.bmp": bmp(WIDTH, HEIGHT, 24, rows_of(draw(), WIDTH * 3), core=True),
    }
    for orientation in range(1, 9):
        files[f"exif{orientation}.jpg"] = saved(photograph(6, 4), "JPEG", exif=b"Exif\0\0" + exif(orientation, "<>"[orientation % 2]))
    return files


def described(picture):
    return {"width": picture.width, "height": picture.height, "pixels": picture.tobytes().hex()}


def resized():
    picture = photograph(37, 23)
    sizes = ((20, 31), (96, 48), (5, 3), (37, 40), (11, 23), (1, 1))
    return [described(picture)] + [described(picture.resize(size, Image.BICUBIC)) for size in sizes]


TONES = {
    "mono16.wav": "-r 16000 -c 1 -b 16",
    "stereo44.wav": "-r 44100 -c 2 -b 16",
    "bits8.wav": "-r 16000 -c 1 -b 8 -e unsigned-integer",
    "bits24.wav": "-r 48000 -c 1 -b 24",
    "float.wav": "-r 16000 -c 1 -b 32 -e floating-point",
    "plain.flac": "-r 44100 -c 2 -b 16",
    "plain.ogg": "-r 44100 -c 1",
    "plain.mp3": "-r 44100 -c 1 -C 64",
    "plain.aiff": "-r 22050 -c 1 -b 16",
}


def write_tones():
    """0.15 s of 440 Hz at half of the full range."""
    for name, options in TONES.items():
        effects = ["synth", "0.15", "sine", "440", "vol", "0.5"]
        subprocess.run(["sox", "-D", "-R", "-n", *options.split(), str(HERE / name), *effects], check=True)
    opus = ["opusenc", "--quiet", "--serial", "1", "--padding", "0", str(HERE / "bits24.wav"), str(HERE / "plain.opus")]
    subprocess.run(opus, check=True)


# The model, the golden, its case, its file, the tensor, and which of its rows are kept. Files go to the folder of
# tests/data that is named after the model.
GOLDENS = (
    ("gemma4", "golden", "image4", "picture4.png", "pixel_values_every_9th", 3),
    ("gemma4_towers", "golden", "image_two", "picture2.png", "pixel_values_every_9th.1", 4),
    ("gemma4_towers", "golden", "image_jpeg", "picture3.jpg", "pixel_values_every_9th.0", 4),
    ("gemma4_unified", "golden", "image_two", "picture2.png", "pixel_values_every_7th.1", 3),
    ("gemma4_unified", "golden", "image_jpeg", "picture3.jpg", "pixel_values_every_7th.0", 3),
    ("qwen3_5", "golden_media", "image_two", "media1.png", "pixel_values_every_5th", 1),
    ("gemma4", "golden_audio", "audio2", "sound2.wav", "audio.mel", 12),
)


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def write_goldens(models):
    header, body = {}, b""
    for model, golden, case_name, file, name, step in GOLDENS:
        cases = json.loads((models / model / f"{golden}.json").read_text())["cases"]
        key = next(case for case in cases if case["name"] == case_name)["tensors"][name]
        infos, data = read_safetensors(models / model / f"{golden}.safetensors")
        begin, end = infos[key]["data_offsets"]
        rows = rows_of(data[begin:end], (end - begin) // infos[key]["shape"][0])[::step]
        kept = b"".join(rows)
        shape = [len(rows), *infos[key]["shape"][1:]]
        header[f"{model}/{case_name}/{name}"] = {"dtype": infos[key]["dtype"], "shape": shape, "data_offsets": [len(body), len(body) + len(kept)]}
        body += kept
        folder = HERE.parent / model
        folder.mkdir(exist_ok=True)
        (folder / file).write_bytes((models / model / file).read_bytes())
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (HERE / "golden.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)


def write_gray16():
    """Pillow clips these numbers; the test knows them."""
    (HERE / "gray16.png").write_bytes(png(WIDTH, HEIGHT, 16, 0, rows_of(draw(channels=2), WIDTH * 2)))


def main():
    expected = {}
    for name, data in pictures().items():
        (HERE / name).write_bytes(data)
        expected[name] = described(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    document = {"pictures": expected, "resized": resized()}
    (HERE / "expected.json").write_text(json.dumps(document, indent=0) + "\n")
    write_gray16()
    write_tones()
    write_goldens(pathlib.Path(sys.argv[1]))


if __name__ == "__main__":
    main()
