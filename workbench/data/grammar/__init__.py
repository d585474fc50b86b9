"""A small grammar of English: sentences that agree, with gold annotation, from lexicons written for it."""

from workbench.data.grammar._catalogue import Entry, contractions, lexicon, lexicon_names
from workbench.data.grammar._constructions import CONSTRUCTION_NAMES, sentences, to_conllu, write_conllu
from workbench.data.grammar._lexicon import Adjective, Name, Noun, Verb, adjectives, names, nouns, verbs
from workbench.data.grammar._morphology import NUMBERS, Number, indefinite_article
from workbench.data.grammar._morphology import plural as regular_plural
from workbench.data.grammar._nominals import adjective_class, modifiers
from workbench.data.grammar._tree import Sampler, Sentence, Word

__all__ = [
    "CONSTRUCTION_NAMES",
    "NUMBERS",
    "Adjective",
    "Entry",
    "Name",
    "Noun",
    "Number",
    "Sampler",
    "Sentence",
    "Verb",
    "Word",
    "adjective_class",
    "adjectives",
    "contractions",
    "indefinite_article",
    "lexicon",
    "lexicon_names",
    "modifiers",
    "names",
    "nouns",
    "regular_plural",
    "sentences",
    "to_conllu",
    "verbs",
    "write_conllu",
]
