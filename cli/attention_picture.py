"""Attention maps as pictures: SVG, and PNG without a display. attention_layout says what stands where; here it is drawn."""

from __future__ import annotations

import io
import math
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from .attention_export import Selection
from .attention_layout import PAPER, Label, Picture, Rectangle, estimated_width, layout

if TYPE_CHECKING:
    from ..model.results import AttentionMap

FONTS = (
    "'DejaVu Sans', Verdana, Helvetica, Arial, 'Noto Sans CJK SC', 'Noto Sans SC', 'Source Han Sans SC', 'PingFang SC', "
    "'Hiragino Sans GB', 'Microsoft YaHei', 'WenQuanYi Zen Hei', SimHei, 'Noto Color Emoji', sans-serif"
)

PIXELS = 2  # of a PNG for each of the layout, so that small labels are sharp
# Looked for in the usual places of the system; the first that has a character draws it.
FONT_FILES = (
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "LiberationSans-Regular.ttf", "Verdana.ttf", "Arial.ttf", "arial.ttf"),
    *("NotoSansCJK-Regular.ttc", "NotoSansCJKsc-Regular.otf", "SourceHanSansSC-Regular.otf", "wqy-zenhei.ttc"),
    *("PingFang.ttc", "Hiragino Sans GB.ttc", "STHeiti Light.ttc", "msyh.ttc", "simhei.ttf", "simsun.ttc"),
    *("DroidSansFallbackFull.ttf", "NotoEmoji-Regular.ttf", "Symbola.ttf", "seguiemj.ttf"),
)
NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # "Char" of XML 1.0
NO_GLYPH = "\U0010ffff"  # a number that is no character, so that every font draws its sign for "missing"


def to_svg(maps: Sequence[AttentionMap], selection: Selection) -> str:
    """A picture that needs nothing else: valid XML, texts as text."""
    picture = layout(maps, selection, estimated_width)
    width, height = _short(picture.width), _short(picture.height)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'role="img" font-family="{FONTS}">',
        f"<title>{_xml(picture.title)}</title>",
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        '<g shape-rendering="crispEdges">',
        *map(_svg_rectangle, picture.rectangles),
        "</g>",
        *map(_svg_label, picture.labels),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _svg_rectangle(shape: Rectangle) -> str:
    x, y, width, height = map(_short, (shape.x, shape.y, shape.width, shape.height))
    start = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{shape.fill}"'
    return f"{start}><title>{_xml(shape.hint)}</title></rect>" if shape.hint else f"{start}/>"


def _svg_label(label: Label) -> str:
    x, y = _short(label.x), _short(label.y)
    turned = f' transform="rotate({-label.angle} {x} {y})"' if label.angle else ""
    anchor = f' text-anchor="{label.anchor}"' if label.anchor != "start" else ""
    bold = ' font-weight="bold"' if label.bold else ""
    start = f'<text x="{x}" y="{y}" font-size="{_short(label.size)}" fill="{label.fill}"{anchor}{bold}{turned}'
    return f'{start} xml:space="preserve">{_xml(label.text)}</text>'


def _xml(text: str) -> str:
    return escape(NOT_XML.sub("", text))


def _short(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")


def to_png(maps: Sequence[AttentionMap], selection: Selection) -> tuple[bytes, tuple[str, ...]]:
    """The same picture in pixels, and a warning if no font here has some of its characters: they are drawn as their code."""
    fonts = Fonts()
    data = paint(layout(maps, selection, fonts.width), fonts)
    return data, fonts.warnings()


class Face:
    """A font of the system, by file name, or that of Pillow, in all sizes."""

    def __init__(self, file: str | None, index: int = 0) -> None:
        """OSError if there is no such font, or if it has only pictures of one size."""
        self.file, self.index = file, index
        self._sizes: dict[int, Any] = {}
        self._missing = self._drawn(NO_GLYPH)

    def at(self, pixels: int) -> Any:
        from PIL import ImageFont

        if pixels not in self._sizes:
            if self.file is None:
                self._sizes[pixels] = ImageFont.load_default(pixels)
            else:
                self._sizes[pixels] = ImageFont.truetype(self.file, pixels, self.index)
        return self._sizes[pixels]

    def has(self, character: str) -> bool:
        return character.isspace() or self._drawn(character) != self._missing

    def _drawn(self, character: str) -> tuple[Any, bytes]:
        mask = self.at(24).getmask(character)
        return mask.size, bytes(mask)


class Fonts:
    """The fonts of one picture, opened as characters need them."""

    def __init__(self, files: Sequence[str] = FONT_FILES, ask_system: bool = True) -> None:
        self.default = Face(None)
        self.missing: dict[str, None] = {}
        self._files = list(files)
        self._ask_system = ask_system
        self._faces: list[Face] = []
        self._chosen: dict[str, Face | None] = {}
        self._asked: set[str] = set()

    def face(self, character: str) -> Face | None:
        """The font that draws a character, None if there is none."""
        if character not in self._chosen:
            self._chosen[character] = self._find(character)
        return self._chosen[character]

    def _find(self, character: str) -> Face | None:
        for face in chain(tuple(self._faces), self._further(character), [self.default]):
            if face.has(character):
                return face
        self.missing[character] = None
        return None

    def _further(self, character: str) -> Iterator[Face]:
        while self._files:
            yield from self._open(self._files.pop(0))
        script = unicodedata.name(character, "").split(" ")[0]  # "CJK", "HANGUL", …: one question for all of them
        if self._ask_system and script not in self._asked:
            self._asked.add(script)
            yield from self._open(*_system_font(character))

    def _open(self, file: str = "", index: int = 0) -> Iterator[Face]:
        try:
            face = Face(file, index)
        except OSError:
            return
        self._faces.append(face)
        yield face

    def width(self, text: str, size: float) -> float:
        """Pixels of the layout that a text of this size takes."""
        pixels = round(size * PIXELS)
        return sum(pixels if face is None else face.at(pixels).getlength(run) for face, run in self.runs(text)) / PIXELS

    def runs(self, text: str) -> Iterator[tuple[Face | None, str]]:
        """The text in pieces of one font each; a character that no font has is a piece without one."""
        for face, group in groupby(text, key=self.face):
            run = "".join(group)
            yield from [(face, run)] if face is not None else ((None, character) for character in run)

    def warnings(self) -> tuple[str, ...]:
        if not self.missing:
            return ()
        codes = [f"U+{ord(character):04X}" for character in self.missing]
        more = f" and {len(codes) - 8} more" if len(codes) > 8 else ""
        return (
            f"no font was found for {' '.join(codes[:8])}{more}; the picture shows their codes: install a font that has them "
            "(for Chinese: Noto Sans CJK), or write svg or html",
        )


def _system_font(character: str) -> tuple[str, int]:
    """File and number of the font that fontconfig, where there is one, draws a character with."""
    if shutil.which("fc-match"):
        command = ["fc-match", "--format", "%{index} %{file}", f":charset={ord(character):x}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        index, _, file = done.stdout.partition(" ")
        if index.isdigit():
            return file, int(index)
    return "", 0


def paint(picture: Picture, fonts: Fonts) -> bytes:
    """A PNG of PIXELS times the picture's size."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (round(picture.width * PIXELS), round(picture.height * PIXELS)), PAPER)
    draw = ImageDraw.Draw(image)
    for shape in picture.rectangles:
        left, top = round(shape.x * PIXELS), round(shape.y * PIXELS)
        right, bottom = round((shape.x + shape.width) * PIXELS), round((shape.y + shape.height) * PIXELS)
        draw.rectangle((left, top, max(right - 1, left), max(bottom - 1, top)), fill=shape.fill)
    for label in picture.labels:
        _paint_label(image, label, fonts)
    file = io.BytesIO()
    image.save(file, "PNG", dpi=(96 * PIXELS, 96 * PIXELS))
    return file.getvalue()


def _paint_label(image: Any, label: Label, fonts: Fonts) -> None:
    """Draws a text as a mask, turns that, and lays it on the image so that the text's origin comes to its place."""
    from PIL import Image, ImageDraw

    pixels = round(label.size * PIXELS)
    width = math.ceil(fonts.width(label.text, label.size) * PIXELS) + 2
    mask = Image.new("L", (width, 2 * pixels), 0)
    draw = ImageDraw.Draw(mask)
    baseline = round(1.4 * pixels)
    x = 0.0
    for face, run in fonts.runs(label.text):
        if face is None:
            _paint_code(draw, run, x, baseline, pixels, fonts.default)
            x += pixels
            continue
        font = face.at(pixels)
        for shift in (0, 1) if label.bold else (0,):
            draw.text((x + shift, baseline), run, fill=255, font=font, anchor="ls")
        x += font.getlength(run)

    turn = math.radians(label.angle)
    start = {"start": 0.0, "middle": x / 2, "end": x}[label.anchor]
    from_centre = start - mask.width / 2, baseline - mask.height / 2
    if label.angle:
        mask = mask.rotate(label.angle, Image.Resampling.BICUBIC, expand=True)
    origin_x = mask.width / 2 + from_centre[0] * math.cos(turn) + from_centre[1] * math.sin(turn)
    origin_y = mask.height / 2 - from_centre[0] * math.sin(turn) + from_centre[1] * math.cos(turn)
    image.paste(label.fill, (round(label.x * PIXELS - origin_x), round(label.y * PIXELS - origin_y)), mask)


def _paint_code(draw: Any, character: str, x: float, baseline: int, pixels: int, face: Face) -> None:
    """A box of one em with the character's number in it, in two lines: 62/11."""
    top = baseline - round(0.88 * pixels)
    draw.rectangle((x + 1, top, x + pixels - 2, top + pixels - 1), outline=255)
    code = f"{ord(character):04X}"
    half = (len(code) + 1) // 2
    font = face.at(max(round(0.42 * pixels), 6))
    for line, digits in enumerate((code[:half], code[half:])):
        draw.text((x + pixels / 2, top + (0.27 + 0.46 * line) * pixels), digits, fill=255, font=font, anchor="mm")
