"""What pages, notebooks and reports say around the exercises, in both languages."""

from __future__ import annotations

WORDS = {
    "en": {
        "concept": "concept",
        "implement": "implement",
        "find the bug": "find the bug",
        "extend": "extend",
        "discuss": "discuss",
        "difficulty": "difficulty {n} of 3",
        "minutes": "{n} min",
        "points": "{n} points",
        "point": "1 point",
        "hint": "Hint",
        "hint_n": "Hint {n}",
        "solution": "Solution",
        "start": "Start from this cell:",
        "test": "Tests that check your answer",
        "answer_here": "*Write your answer here, in place of this line.*",
        "notebook": "Solve them in the notebook, where each answer is checked: [open in Colab]({colab}) or <a href='{download}' download>download</a>.",
        "how": "Run the first cell. Then replace each line `raise check.unanswered` with your code, or fill in the empty answers, and run the test cell below: it says that the tests pass, or what is wrong. Where an exercise asks for code, more tests of the same kind run when your notebook is graded. Keep the cells in their order; you may add your own.",
        "due": "Due {deadline}. {points} in all.",
        "setup": "# In Colab this installs the book's library; elsewhere it does nothing.",
    },
    "ko": {
        "concept": "개념",
        "implement": "구현",
        "find the bug": "버그 찾기",
        "extend": "확장",
        "discuss": "서술",
        "difficulty": "난이도 {n}/3",
        "minutes": "{n}분",
        "points": "{n}점",
        "point": "1점",
        "hint": "힌트",
        "hint_n": "힌트 {n}",
        "solution": "풀이",
        "start": "이 셀에서 시작하세요.",
        "test": "답을 확인하는 테스트",
        "answer_here": "*이 줄을 지우고 여기에 답을 쓰세요.*",
        "notebook": "노트북에서 풀면 답을 바로 확인할 수 있습니다. [Colab에서 열기]({colab}) · <a href='{download}' download>내려받기</a>",
        "how": "먼저 첫 셀을 실행하세요. 그다음 `raise check.unanswered`가 있는 줄을 코드로 바꾸거나 비어 있는 답을 채우고, 바로 아래 테스트 셀을 실행하세요. 테스트를 통과했는지, 아니면 무엇이 틀렸는지 알려 줍니다. 코드를 쓰는 문제는 채점할 때 같은 종류의 테스트를 더 실행합니다. 있던 셀은 지우거나 옮기지 마세요. 새 셀은 더 넣어도 됩니다.",
        "due": "마감은 {deadline}이고, 모두 {points}입니다.",
        "setup": "# Colab에서는 이 책의 라이브러리를 설치하고, 다른 곳에서는 아무 일도 하지 않습니다.",
    },
}

# Of the tables and of the pages of feedback.
REPORT = {
    "en": {
        "student": "student", "name": "name", "file": "handed in as", "status": "status", "flags": "flags", "auto": "automatic",
        "manual": "by hand", "total": "total", "of": "out of", "seconds": "seconds", "late": "late",
        "ok": "ok", "look": "look at it", "nothing": "nothing", "waiting": "points by hand missing",
        "points": "points", "comment": "comment", "answer": "answer", "exercise": "exercise",
        "rubric": "rubric", "model": "model answer", "passed": "All tests pass.",
        "stopped": "the cell stopped with {name}.", "unanswered": "No answer was found.",
        "where": "In line {line} of your answer: ",
        "unreadable": "Python cannot read line {line} of your answer ({error}). Check this line and the one before for a missing colon, bracket or quotation mark, and for their indentation.",
        "no_name": "the name {name} is not defined (NameError).",
        "another_kind": "The answer differs from what is asked for in its type, dtype, shape or number of results, or contains NaN or infinity. The tests in the notebook say which.",
        "not_a_choice": "An answer here is one of these: {choices}. Something else was written; the tests in the notebook say where.",
        "not_a_number": "An answer here is a number, written without quotation marks. Something else was written; the tests in the notebook say where.",
        "no_notebook": "No notebook that can be read was found in what you handed in. Please hand in the notebook itself, the file whose name ends in .ipynb.",
        "too_large": "The file you handed in has {size} MB and was too large to be read. A notebook of up to {most} MB can be read. Please clear all outputs of the notebook, save it, and hand it in again.",
        "slow": "The cell did not finish in the time allowed. Check whether a loop never ends.",
        "to_come": "Points will be given by hand.", "seen": "The grader will look at your notebook once more.",
    },
    "ko": {
        "student": "학생", "name": "이름", "file": "제출물", "status": "상태", "flags": "표시", "auto": "자동 채점",
        "manual": "수동 채점", "total": "합계", "of": "만점", "seconds": "걸린 시간(초)", "late": "지각",
        "ok": "정상", "look": "확인 필요", "nothing": "제출 없음", "waiting": "수동 채점 남음",
        "points": "점수", "comment": "의견", "answer": "답", "exercise": "문제",
        "rubric": "채점 기준", "model": "모범 답안", "passed": "모든 테스트를 통과했습니다.",
        "stopped": "셀이 {name} 때문에 멈췄습니다.", "unanswered": "답을 찾지 못했습니다.",
        "where": "답의 {line}번째 줄: ",
        "unreadable": "답의 {line}번째 줄을 파이썬이 읽지 못합니다({error}). 이 줄과 바로 앞줄에서 콜론이나 괄호, 따옴표가 빠지지 않았는지, 들여쓰기가 맞는지 살펴보세요.",
        "no_name": "정의되지 않은 이름을 썼습니다: {name} (NameError)",
        "another_kind": "답의 타입, dtype, 모양, 결과의 개수 가운데 문제에서 요구한 것과 다른 것이 있거나, NaN이나 무한대가 들어 있습니다. 노트북의 테스트를 실행하면 어느 것인지 나옵니다.",
        "not_a_choice": "이 문제의 답은 다음 가운데 하나여야 하는데, 다른 것을 썼습니다: {choices}. 노트북의 테스트를 실행하면 어느 답인지 나옵니다.",
        "not_a_number": "숫자를 따옴표 없이 써야 하는 곳에 다른 것을 썼습니다. 노트북의 테스트를 실행하면 어느 답인지 나옵니다.",
        "no_notebook": "제출한 파일에서 읽을 수 있는 노트북을 찾지 못했습니다. 이름이 .ipynb로 끝나는 노트북 파일을 다시 제출해 주세요.",
        "too_large": "제출한 파일이 너무 커서({size} MB) 읽지 못했습니다. {most} MB까지는 언제나 읽을 수 있으니, 노트북의 출력을 모두 지우고 저장한 다음 다시 제출해 주세요.",
        "slow": "정해진 시간 안에 끝나지 않았습니다. 끝나지 않는 반복문이 있는지 살펴보세요.",
        "to_come": "채점자가 직접 읽고 점수를 매깁니다.", "seen": "채점자가 노트북을 한 번 더 살펴봅니다.",
    },
}  # fmt: skip


def number(value: float) -> str:
    """2 rather than 2.0, 2.5 as it is."""
    return f"{value:g}"


def points(value: float, language: str) -> str:
    """'1 point', '2.5 points' in the language."""
    words = WORDS[language]
    return words["point"] if value == 1 else words["points"].format(n=number(value))


def facts(exercise, language: str, worth: float | None = None) -> str:
    """The line under an exercise's title: kind, difficulty, minutes, points."""
    words = WORDS[language]
    return " · ".join(
        [
            words[exercise.kind],
            words["difficulty"].format(n=exercise.difficulty),
            words["minutes"].format(n=exercise.minutes),
            points(exercise.points if worth is None else worth, language),
        ]
    )
